"""Identities of messages as numbers: exact, and millions of them are compared in a moment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lean_ops import fingerprints
from lean_ops.batch.accounting import OUTCOMES, Books
from spark_jobs.transforms.identity import IDENTITY

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Hashed = npt.NDArray[np.uint64]

Versions = tuple[pa.ChunkedArray, pa.ChunkedArray]

_HALF = 30
_MICROS = pa.timestamp("us", tz="UTC")
_TEXT = pa.large_string()


def together(*tables: pa.Table) -> pa.Table:
    """The identities of all rows of some tables."""
    schema = pa.schema([("message_id", pa.large_string()), ("publish_time", _MICROS)])
    each = (table.select(IDENTITY).cast(schema) for table in tables)
    return pa.concat_tables([schema.empty_table(), *each])


def numbered(*tables: pa.Table) -> tuple[list[Numbers], int]:
    """A number for every row of every table, the same for the same identity, and how many numbers there are."""
    rows = together(*tables)
    names, moments = (_codes(rows[name]) for name in IDENTITY)
    joint = pa.chunked_array([names * (moments.max(initial=0) + 1) + moments])
    bounds = np.cumsum([0, *map(len, tables)]).tolist()
    return alike(*(joint.slice(start, stop - start) for start, stop in pairwise(bounds)))


def alike(*columns: pa.ChunkedArray) -> tuple[list[Numbers], int]:
    """A number for every value of every column, the same for the same value, and how many numbers there are."""
    numbers = _codes(
        pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    )
    bounds = np.cumsum([0, *map(len, columns)]).tolist()
    return [numbers[start:stop] for start, stop in pairwise(bounds)], int(numbers.max(initial=-1)) + 1


def later(moments: Versions, others: Versions) -> Mask:
    """Whether each version, `(publish_time, message_id)`, is greater than the one beside it."""
    (moment, name), (other, other_name) = moments, others
    same_time = pc.and_(pc.equal(moment, other), pc.greater(name, other_name))
    found: Mask = pc.or_(pc.greater(moment, other), same_time).to_numpy().astype(np.bool_)
    return found


def marked(numbers: Numbers, size: int) -> Mask:
    """Which of the numbers below `size` occur."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[numbers] = True
    return mask


def hashes(identities: pa.Table) -> Hashed:
    """What the fingerprints sum, for each identity: `fingerprints.of_message`, for many at once."""
    micros = identities["publish_time"].cast(_MICROS).cast(pa.int64()).cast(_TEXT)
    texts = pc.binary_join_element_wise(
        identities["message_id"].cast(_TEXT), micros, pa.scalar(fingerprints.SEPARATOR, _TEXT)
    )
    each = (
        hashlib.md5(text, usedforsecurity=False).digest()
        for text in texts.cast(pa.large_binary()).to_pylist()
    )
    halves = np.frombuffer(b"".join(each), ">u8").astype(np.uint64)
    return halves[::2] >> np.uint64(64 - fingerprints.BITS)


def total(hashed: Hashed) -> int:
    """The fingerprint: summed in two halves, which no batch is big enough to overflow."""
    low = int((hashed & np.uint64((1 << _HALF) - 1)).sum())
    return (int((hashed >> np.uint64(_HALF)).sum()) << _HALF) + low


@dataclass(frozen=True)
class Ledger:
    """How often each identity stands in the source of a batch and in each of its outcomes."""

    sides: Mapping[str, pa.Table]
    # Of each row of the source.
    hashed: Hashed

    def books(self) -> Books:
        """Counts and fingerprints per outcome, and what does not add up."""
        source, added, errors = (self._stands[side] for side in ("source", "added", "errors"))
        before = self._stands["before"]
        in_source = source > 0
        return Books(
            source_rows=int(source.sum()),
            source_messages=int(in_source.sum()),
            source_fingerprint=self._fingerprint(in_source),
            added_rows=int(added.sum()),
            added_fingerprint=self._fingerprint(added > 0),
            known_messages=int((in_source & (before > 0)).sum()),
            known_fingerprint=self._fingerprint(in_source & (before > 0)),
            error_messages=int((in_source & (errors > 0)).sum()),
            error_fingerprint=self._fingerprint(in_source & (errors > 0)),
            missing=int((in_source & (self._outcomes == 0)).sum()),
            doubled=int(self._doubled.sum()),
            foreign=int(self._foreign.sum()),
        )

    def offenders(self, limit: int = 10) -> list[str]:
        """Some of the messages that do not add up, for the error message."""
        missing = (self._stands["source"] > 0) & (self._outcomes == 0)
        wrong = np.flatnonzero(missing | self._doubled | self._foreign)
        return sorted(self._distinct.take(pa.array(wrong))["message_id"].to_pylist())[:limit]

    @cached_property
    def _numbered(self) -> tuple[list[Numbers], int]:
        return numbered(*self.sides.values())

    @cached_property
    def _stands(self) -> dict[str, Numbers]:
        each, size = self._numbered
        return dict(zip(self.sides, (np.bincount(one, minlength=size) for one in each), strict=True))

    @cached_property
    def _distinct(self) -> pa.Table:
        """The identities in the order of their numbers."""
        each, size = self._numbered
        numbers, first = np.concatenate(each), np.zeros(size, dtype=np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        return together(*self.sides.values()).take(pa.array(first))

    @cached_property
    def _outcomes(self) -> Numbers:
        return np.sum([self._stands[side] > 0 for side in OUTCOMES], axis=0)

    @property
    def _doubled(self) -> Mask:
        twice = (self._stands["added"] > 1) | (self._stands["errors"] > 1)
        return twice | ((self._stands["source"] > 0) & (self._outcomes > 1))

    @property
    def _foreign(self) -> Mask:
        return (self._stands["source"] == 0) & (self._stands["added"] > 0)

    @cached_property
    def _hashes(self) -> Hashed:
        each, size = self._numbered
        source = dict(zip(self.sides, each, strict=True))["source"]
        found, others = np.zeros(size, np.uint64), ~marked(source, size)
        found[source] = self.hashed
        found[others] = hashes(self._distinct.filter(pa.array(others)))
        return found

    def _fingerprint(self, mask: Mask) -> int:
        return total(self._hashes[mask])


def _codes(values: pa.ChunkedArray) -> Numbers:
    codes: Numbers = values.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)
