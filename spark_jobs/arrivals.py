"""Rows of RAW as they arrived, by identity; their payloads are looked at only where two of them compete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.batch_tables import BatchTables
from spark_jobs.identities import Hashed, Mask, Numbers, marked
from spark_jobs.payload_tasks import Part, Source, digests, texts
from spark_jobs.pieces import Piece, Run
from spark_jobs.transforms.identity import IDENTITY


class Ordered(NamedTuple):
    """Rows by message, and the deliveries of each message from the first on."""

    rows: Numbers
    messages: Numbers
    payloads: Hashed
    is_first: Mask


@dataclass(frozen=True)
class Arrivals:
    """All rows of some pieces, in the order in which every task reads them."""

    source: Source
    pieces: tuple[Piece, ...]
    run: Run
    rows: pa.Table
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, tables: BatchTables, pieces: tuple[Piece, ...], run: Run) -> Arrivals:
        source = Source.of(tables.raw, tables.days)
        read = [source.read(piece.files, (*IDENTITY, "ingestion_ts")) for piece in pieces]
        bounds = np.cumsum([0, *map(len, read)]).tolist()
        return cls(source, pieces, run, source.together(read, (*IDENTITY, "ingestion_ts")), tuple(bounds))

    def parts(self, rows: Mask) -> Iterator[Part]:
        """Every piece, with those of its rows that are marked."""
        for piece, (start, stop) in zip(self.pieces, pairwise(self.bounds), strict=True):
            yield Part(piece, np.flatnonzero(rows[start:stop]))

    def digests(self, rows: Mask) -> Hashed:
        """What the marked rows say, in 64 bits each."""
        parts = [part for part in self.parts(rows) if len(part.rows)]
        return np.concatenate([np.empty(0, np.uint64), *self.run(partial(digests, self.source), parts)])

    def ordered(self, rows: Mask, messages: Numbers) -> Ordered:
        """The marked rows; first is who arrived first, within a millisecond the one with the lesser payload."""
        chosen, payloads = np.flatnonzero(rows), self.digests(rows)
        mine, arrived = messages[chosen], self.rows["ingestion_ts"].to_numpy()[chosen]
        order = np.lexsort((arrived, mine))
        same = (np.diff(mine[order]) == 0) & (np.diff(arrived[order]) == 0)
        if same.any():
            ranks = np.zeros(len(chosen), dtype=np.int64)
            tied = np.union1d(order[1:][same], order[:-1][same])
            ranks[tied] = self._ranks(chosen[tied])
            order = np.lexsort((ranks, arrived, mine))
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = np.diff(mine[order]) != 0
        return Ordered(chosen[order], mine[order], payloads[order], is_first)

    def _ranks(self, rows: Numbers) -> list[int]:
        parts = [part for part in self.parts(marked(rows, len(self.rows))) if len(part.rows)]
        said = [text for each in self.run(partial(texts, self.source), parts) for text in each]
        ranks = {text: rank for rank, text in enumerate(sorted(set(said)))}
        return [ranks[text] for text in said]
