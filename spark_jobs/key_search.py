"""Rows of Curated by their keys: found by 64 bits of each key's hash, confirmed by the key itself.

Of all history only the column of hashes is read; the others only of files that hold one of the keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask, Table

from lean_ops.aws import lake, rows
from lean_ops.aws.position_deletes import Deleted
from lean_ops.aws.table_files import TableFiles
from lean_ops.tables import KEY_HASH
from spark_jobs.identities import Mask, Numbers
from spark_jobs.pieces import InThreads, OnExecutors, Piece, cut

KEY = "idempotency_key"
# Where a row stands: in which of the files that were searched, and at which place of it.
FILE, PLACE = "_file", "_place"
# So many rows are read faster in threads of this process than by tasks.
ROWS_IN_THREADS = 50_000_000
_LEAST_BITS, _MOST_BITS = 16, 25
_MARKS_PER_KEY = 256


def key_hashes(keys: pa.Array | pa.ChunkedArray) -> Numbers:
    """64 bits of the hash of each key, as a table keeps them."""
    texts = keys.cast(pa.large_binary()).to_pylist()
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, ">i8").astype(np.int64)


@dataclass(frozen=True)
class Sieve:
    """Lets the hashes of some keys pass and no other: a bit per hash rules out nearly all, the rest are compared."""

    wanted: Numbers
    marks: Mask

    @classmethod
    def of(cls, hashes: Numbers) -> Sieve:
        bits = int(len(hashes) * _MARKS_PER_KEY).bit_length()
        marks = np.zeros(1 << min(max(bits, _LEAST_BITS), _MOST_BITS), np.bool_)
        marks[hashes & (len(marks) - 1)] = True
        return cls(np.unique(hashes), marks)

    def passing(self, hashes: Numbers) -> Mask:
        found = self.marks[hashes & (len(self.marks) - 1)]
        likely = np.flatnonzero(found)
        found[likely] = np.isin(hashes[likely], self.wanted)
        return found


class Found(NamedTuple):
    """Rows, and the files that they stand in."""

    rows: pa.Table
    files: list[FileScanTask]


def rows_of_keys(
    table: Table, snapshot: int, keys: pa.ChunkedArray, columns: Sequence[str], executors: OnExecutors
) -> Found:
    """The rows that have these keys at a snapshot."""
    of, wanted, most = TableFiles.of(table), (KEY, *columns), lake.rows_at_most(table, snapshot)
    if most == 0 or not len(keys):
        return Found(_nothing(of, wanted), [])
    run = InThreads() if most is not None and most <= ROWS_IN_THREADS else executors
    files = list(rows.files(table, None, snapshot))
    numbers = {task.file.file_path: number for number, task in enumerate(files)}
    # In a table that hardly has more rows than there are keys, nearly every row would pass.
    sieve = None if most is not None and most < 2 * len(keys) else Sieve.of(key_hashes(keys))
    search = _Search(of, wanted, sieve, numbers, Deleted(of))
    done = run(partial(_found_in, search), cut(files, run.at_once))
    found = pa.concat_tables([_nothing(of, wanted), *done])
    return Found(found.filter(pc.is_in(found[KEY], value_set=keys.combine_chunks())), files)


@dataclass(frozen=True)
class _Search:
    """What is looked for, and in what; files have numbers, because their names would outweigh the rows."""

    of: TableFiles
    columns: Sequence[str]
    sieve: Sieve | None
    numbers: Mapping[str, int]
    deleted: Deleted


def _found_in(search: _Search, piece: Piece) -> pa.Table:
    of, columns, sieve = search.of, search.columns, search.sieve
    found = [_nothing(of, columns)]
    for task in piece.files:
        # Without its delete files, so that a row's place here is its place in the file.
        whole = FileScanTask(task.file)
        if sieve is None:
            passing = np.ones(task.file.record_count, np.bool_)
        else:
            passing = sieve.passing(of.column(task.file, KEY_HASH).to_numpy())
        if passing.any():
            passing[search.deleted.places(task)] = False
            places = pa.array(np.flatnonzero(passing))
            rows_ = of.read([whole], columns).take(places)
            number = pa.repeat(search.numbers[task.file.file_path], len(places))
            placed = rows_.append_column(FILE, number).append_column(PLACE, places)
            found.append(placed.cast(found[0].schema))
    return pa.concat_tables(found)


def _nothing(of: TableFiles, columns: Sequence[str]) -> pa.Table:
    own = ((field.name, field.type) for field in of.metadata.schema().select(*columns).as_arrow())
    return pa.schema([*own, (FILE, pa.int64()), (PLACE, pa.int64())]).empty_table()
