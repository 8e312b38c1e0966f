"""Rows of Curated by their keys: found by 64 bits of each key's hash, confirmed by the key itself.

Of all history only the column of hashes is read; the others only of files that hold one of the keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
# Where a row stands: in which file, and at which place of it.
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
    """Lets the hashes of some keys pass, and few others: a bit per hash is quicker than looking each one up."""

    marks: Mask

    @classmethod
    def of(cls, hashes: Numbers) -> Sieve:
        bits = int(len(hashes) * _MARKS_PER_KEY).bit_length()
        marks = np.zeros(1 << min(max(bits, _LEAST_BITS), _MOST_BITS), np.bool_)
        marks[hashes & (len(marks) - 1)] = True
        return cls(marks)

    def passing(self, hashes: Numbers) -> Mask:
        return self.marks[hashes & (len(self.marks) - 1)]


def rows_of_keys(
    table: Table, snapshot: int, keys: pa.ChunkedArray, columns: Sequence[str], executors: OnExecutors
) -> pa.Table:
    """The rows that have these keys at a snapshot, and where they stand."""
    of, wanted, live = TableFiles.of(table), (KEY, *columns), lake.live_rows(table, snapshot)
    if not live or not len(keys):
        return _nothing(of, wanted)
    run = InThreads() if live <= ROWS_IN_THREADS else executors
    pieces = cut(rows.files(table, None, snapshot), run.at_once)
    search = partial(_search, of, Deleted(of), Sieve.of(key_hashes(keys)), wanted)
    found = pa.concat_tables(run(search, pieces))
    return found.filter(pc.is_in(found[KEY], value_set=keys.combine_chunks()))


def _search(of: TableFiles, deleted: Deleted, sieve: Sieve, columns: Sequence[str], piece: Piece) -> pa.Table:
    found = [_nothing(of, columns)]
    for task in piece.files:
        # Without its delete files, so that a row's place here is its place in the file.
        whole = FileScanTask(task.file)
        passing = sieve.passing(of.read([whole], [KEY_HASH])[KEY_HASH].to_numpy())
        if passing.any():
            passing[deleted.places(task)] = False
            places = pa.array(np.flatnonzero(passing))
            rows_ = of.read([whole], columns).take(places)
            path = pa.array([task.file.file_path] * len(places), pa.large_string())
            placed = rows_.append_column(FILE, path).append_column(PLACE, places)
            found.append(placed.cast(found[0].schema))
    return pa.concat_tables(found)


def _nothing(of: TableFiles, columns: Sequence[str]) -> pa.Table:
    own = ((field.name, field.type) for field in of.metadata.schema().select(*columns).as_arrow())
    return pa.schema([*own, (FILE, pa.large_string()), (PLACE, pa.int64())]).empty_table()
