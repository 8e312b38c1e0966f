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
    Hashed,
    Mask,
    Numbers,
    Versions,
    alike,
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

    records   of the batch             rows     of Curated now that have the keys of records, with their firsts
    errors    that are open            before   rows that the keys had before the batch, likewise
    hashed    of each record the hash that fingerprints sum
    """

    records: pa.Table
    rows: pa.Table
    errors: pa.Table
    before: pa.Table
    hashed: Hashed

    def books(self) -> Mapping[str, int]:
        """Counts and fingerprints per outcome, and what does not add up."""
        standing = self.standing._asdict()
        sides = {side: standing[side] for side in ("current", "superseded", "error")}
        return {
            "source_rows": len(self.records),
            "source_fingerprint": total(self.hashed),
            **{f"{side}_messages": int(mask.sum()) for side, mask in sides.items()},
            **{f"{side}_fingerprint": total(self.hashed[mask]) for side, mask in sides.items()},
            "missing": int(self.standing.missing.sum()),
            "doubled": int(self.standing.doubled.sum()),
            "foreign": int(self._foreign.sum()),
            "wrong_rows": int(self._wrong.sum()) + self._vanished,
        }

    def offenders(self, limit: int = 10) -> list[str]:
        """Some of the records that do not add up, for the error message."""
        wrong = self.records.filter(pa.array(self.standing.missing | self.standing.doubled))
        rows = self.rows.filter(pa.array(self._foreign | self._wrong))
        return sorted(together(wrong, rows)["message_id"].to_pylist())[:limit]

    @cached_property
    def _numbered(self) -> tuple[list[Numbers], int]:
        return numbered(self.records, self.rows, self.errors, self.before)

    @cached_property
    def _keys(self) -> tuple[list[Numbers], int]:
        return alike(*(_filled(table[KEY]) for table in (self.records, self.rows, self.before)))

    @cached_property
    def _row_of_key(self) -> Numbers:
        """The row of each key, -1 for none. Of two, which are an offence by themselves, any."""
        (_, theirs, _), kinds = self._keys
        row_of_key = np.full(kinds, -1)
        row_of_key[theirs] = np.arange(len(theirs))
        return row_of_key

    @cached_property
    def standing(self) -> Standing:
        (records, rows, errors, _), size = self._numbered
        (keys, theirs, _), kinds = self._keys
        copies, row = np.bincount(theirs, minlength=kinds)[keys], self._row_of_key[keys]
        has_row, error = row >= 0, marked(errors, size)[records]
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

    @property
    def _foreign(self) -> Mask:
        """Rows that come from no record of the batch, and that were not there before it either."""
        (records, rows, _, before), size = self._numbered
        return ~(marked(records, size) | marked(before, size))[rows]

    @cached_property
    def _wrong(self) -> Mask:
        """Rows that an older version has taken, or that do not begin with the least version of their key."""
        (keys, theirs, previous), kinds = self._keys
        wrong, row, was = (
            np.zeros(len(self.rows), np.bool_),
            self._row_of_key[keys],
            self._row_of_key[previous],
        )
        alone = self._begins_with_itself
        # Most records are the only version of their key: there is nothing to compare.
        others = np.flatnonzero(
            (self.standing.current & ~np.append(alone, False)[row]) | self.standing.superseded
        )
        wrong[row[others][later(_firsts(self.rows, row[others]), _versions(self.records, others))]] = True
        stood = np.flatnonzero(was >= 0)
        wrong[was[stood][later(_versions(self.before, stood), _versions(self.rows, was[stood]))]] = True
        wrong[was[stood][later(_firsts(self.rows, was[stood]), _firsts(self.before, stood))]] = True
        told = np.flatnonzero(~alone)
        firsts = (_as_identities(self.rows.take(pa.array(told))), _as_identities(self.before))
        (first, known), _ = numbered(firsts[0], together(self.records.take(pa.array(others)), firsts[1]))
        own, others_ = first * kinds + theirs[told], known * kinds + np.append(keys[others], previous)
        wrong[told[~np.isin(own, others_)]] = True
        wrong[told[later(_firsts(self.rows, told), _versions(self.rows, told))]] = True
        return wrong

    @property
    def _vanished(self) -> int:
        """Keys that had a row before the batch, and have none now."""
        (_, _, previous), _ = self._keys
        return int((self._row_of_key[previous] < 0).sum())

    @property
    def _begins_with_itself(self) -> Mask:
        same_time = pc.equal(self.rows["first_seen_ts"], self.rows["publish_time"])
        same_id = pc.equal(_filled(self.rows["first_message_id"]), _filled(self.rows["message_id"]))
        found: Mask = pc.and_(same_time, same_id).to_numpy().astype(np.bool_)
        return found


def _filled(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(texts.cast(pa.large_string()), "")


def _versions(table: pa.Table, rows: Numbers) -> Versions:
    found = together(table.take(pa.array(rows)))
    return found["publish_time"], found["message_id"]


def _firsts(table: pa.Table, rows: Numbers) -> Versions:
    found = _as_identities(table.take(pa.array(rows)))
    return found["publish_time"], found["message_id"]


def _as_identities(table: pa.Table) -> pa.Table:
    """The first versions that some rows name, as identities."""
    return together(
        pa.table({"message_id": table["first_message_id"], "publish_time": table["first_seen_ts"]})
    )
