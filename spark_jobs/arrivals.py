"""Rows of RAW as they arrived, by identity; their payloads are looked at only where two of them compete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.table import FileScanTask

from spark_jobs.batch_tables import BatchTables
from spark_jobs.identities import Hashed, Mask, Numbers
from spark_jobs.payload_tasks import Part, digests, identity_hashes, texts
from spark_jobs.pieces import Piece, Run, cut
from spark_jobs.source import Source
from spark_jobs.transforms.identity import IDENTITY

_COLUMNS = (*IDENTITY, "ingestion_ts")


class Ordered(NamedTuple):
    """Rows by message, and the deliveries of each message from the first on."""

    rows: Numbers
    messages: Numbers
    is_first: Mask


@dataclass(frozen=True)
class Arrivals:
    """All rows of some files, in the order in which the tasks read them."""

    source: Source
    run: Run
    pieces: tuple[Piece, ...]
    rows: pa.Table
    bounds: tuple[int, ...]

    @classmethod
    def of(cls, tables: BatchTables, files: Iterable[FileScanTask], run: Run) -> Arrivals:
        source, pieces = Source.of(tables.raw, tables.days), cut(files, run.at_once)
        rows, bounds = source.gather(pieces, _COLUMNS)
        return cls(source, run, pieces, rows, bounds)

    def parts(self, rows: Mask, compared: Mask | None = None) -> Iterator[Part]:
        """Every piece, with those of its rows that are marked."""
        none = np.zeros(len(self.rows), dtype=np.bool_)
        others = none if compared is None else compared
        for piece, (start, stop) in zip(self.pieces, pairwise(self.bounds), strict=True):
            yield Part(piece, rows[start:stop], others[start:stop])

    def hashes(self) -> Hashed:
        """Of each row the hash that fingerprints sum."""
        everyone = np.ones(len(self.rows), dtype=np.bool_)
        done = self.run(partial(identity_hashes, self.source), list(self.parts(everyone)))
        return np.concatenate([np.empty(0, np.uint64), *done])

    def digests(self, rows: Mask) -> Hashed:
        """What the marked rows say, in 64 bits each."""
        said = self.run(partial(digests, self.source), self.some(rows))
        return np.concatenate([np.empty(0, np.uint64), *said])

    def ordered(self, rows: Mask, messages: Numbers) -> Ordered:
        """The marked rows; first is who arrived first, within a millisecond the one with the lesser payload."""
        chosen = np.flatnonzero(rows)
        mine, arrived = messages[chosen], self.rows["ingestion_ts"].to_numpy()[chosen]
        order = np.lexsort((arrived, mine))
        same = (np.diff(mine[order]) == 0) & (np.diff(arrived[order]) == 0)
        if same.any():
            tied, ranks = np.zeros(len(chosen), dtype=np.bool_), np.zeros(len(chosen), dtype=np.int64)
            tied[order[1:][same]] = tied[order[:-1][same]] = True
            ranks[tied] = self._ranks(chosen[tied])
            order = np.lexsort((ranks, arrived, mine))
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = np.diff(mine[order]) != 0
        return Ordered(chosen[order], mine[order], is_first)

    def _ranks(self, rows: Numbers) -> list[int]:
        marks = np.zeros(len(self.rows), dtype=np.bool_)
        marks[rows] = True
        said = [text for each in self.run(partial(texts, self.source), self.some(marks)) for text in each]
        ranks = {text: rank for rank, text in enumerate(sorted(set(said)))}
        return [ranks[text] for text in said]

    def some(self, rows: Mask) -> list[Part]:
        """Only the pieces that have marked rows."""
        return [part for part in self.parts(rows) if part.rows.any()]
