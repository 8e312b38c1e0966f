"""Where each record of a batch stands, counted from the tables: in its key's row, below it, or in its open error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.identities import (
    Hashes,
    Mask,
    Numbers,
    Versions,
    alike,
    hashes,
    later,
    marked,
    numbered,
    together,
    total,
)
from spark_jobs.key_search import KEY


class Standing(NamedTuple):
    """For every record, whether it ended in this way."""

    current: Mask
    superseded: Mask
    error: Mask
    missing: Mask
    doubled: Mask


@dataclass(frozen=True)
class CuratedLedger:
    """What stands where, each with its identity; records and rows with their keys.

    records   of the batch             rows     of Curated now that have the keys of records
    errors    that are open            before   rows that the keys had before the batch
    """

    records: pa.Table
    rows: pa.Table
    errors: pa.Table
    before: pa.Table
    hashes: Hashes = hashes

    def books(self) -> Mapping[str, int]:
        """Counts and fingerprints per outcome, and what does not add up."""
        hashed, standing = self.hashes(self.records), self.standing._asdict()
        sides = {side: standing[side] for side in ("current", "superseded", "error")}
        return {
            "source_rows": len(self.records),
            "source_fingerprint": total(hashed),
            **{f"{side}_messages": int(mask.sum()) for side, mask in sides.items()},
            **{f"{side}_fingerprint": total(hashed[mask]) for side, mask in sides.items()},
            "missing": int(self.standing.missing.sum()),
            "doubled": int(self.standing.doubled.sum()),
            "foreign": int(self._foreign.sum()),
        }

    def offenders(self, limit: int = 10) -> list[str]:
        """Some of the records that do not add up, for the error message."""
        wrong = self.records.filter(pa.array(self.standing.missing | self.standing.doubled))
        foreign = self.rows.filter(pa.array(self._foreign))
        return sorted(together(wrong, foreign)["message_id"].to_pylist())[:limit]

    @cached_property
    def _numbered(self) -> tuple[list[Numbers], int]:
        return numbered(self.records, self.rows, self.errors, self.before)

    @property
    def _foreign(self) -> Mask:
        """Rows that come from no record of the batch, and that were not there before it either."""
        (records, rows, _, before), size = self._numbered
        return ~(marked(records, size) | marked(before, size))[rows]

    @cached_property
    def standing(self) -> Standing:
        (records, rows, errors, _), size = self._numbered
        (keys, theirs), kinds = alike(*(_keys(table) for table in (self.records, self.rows)))
        copies = np.bincount(theirs, minlength=kinds)[keys]
        has_row, error = copies > 0, marked(errors, size)[records]
        row_of_key = np.full(kinds, -1)
        row_of_key[theirs] = np.arange(len(theirs))
        row = row_of_key[keys]
        # Which of the rows -1 takes does not matter: who has none is none of these.
        own = has_row & (np.append(rows, -1)[row] == records)
        greater = np.zeros(len(records), np.bool_)
        behind = np.flatnonzero(has_row & ~own)
        greater[behind] = later(_versions(self.rows, row[behind]), _versions(self.records, behind))
        return Standing(
            current=own & ~error,
            superseded=greater & ~error,
            error=error,
            missing=~(own | greater | error),
            doubled=(copies > 1) | (error & own) | (np.bincount(records, minlength=size)[records] > 1),
        )


def _keys(table: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(table[KEY].cast(pa.large_string()), "")


def _versions(table: pa.Table, rows: Numbers) -> Versions:
    found = together(table.take(pa.array(rows)))
    return found["publish_time"], found["message_id"]
