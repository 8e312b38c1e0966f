"""What a task does with files of RAW: find out what they hold, take them apart, write what becomes of them."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from lean_ops import tables
from lean_ops.aws.table_files import TableFiles
from lean_ops.batch.batch_plan import BatchPlan
from lean_ops.payload.survey import KnownShape
from spark_jobs import parse_errors
from spark_jobs.identities import Hashed, Numbers
from spark_jobs.pieces import Piece
from spark_jobs.transforms import payloads
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.payloads import TableShape

# So much of a piece is held at once; beyond it, another file per partition begins.
WRITTEN_AT_ONCE = 256 * 1024 * 1024

_RAW = [column.name for column in tables.RAW_COLUMNS]
_SUMMARY = ["code", "path", "kind", "overflow"]


@dataclass(frozen=True)
class Part:
    """A piece, some of its rows by their place in it, and others whose payloads will be compared."""

    piece: Piece
    rows: Numbers
    compared: Numbers


@dataclass(frozen=True)
class Source:
    """RAW as a task reads it."""

    files: TableFiles
    where: BooleanExpression

    @classmethod
    def of(cls, table: Table, where: BooleanExpression) -> Source:
        return cls(TableFiles.of(table), where)

    def read(self, files: Iterable[FileScanTask], columns: Sequence[str]) -> pa.Table:
        return self.files.read(files, columns, self.where)

    def files_of(self, part: Part) -> Iterator[tuple[pa.Table, Numbers, Numbers]]:
        """The files of a part one by one, with the places of the part's rows in them."""
        start = 0
        for file in part.piece.files:
            found = self.read([file], _RAW)
            stop = start + len(found)
            here = (each[(each >= start) & (each < stop)] - start for each in (part.rows, part.compared))
            yield found, *here
            start = stop

    def but(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part's piece without those of the part."""
        for found, left_out, _ in self.files_of(part):
            yield from _without(found, left_out)


def _without(found: pa.Table, left_out: Numbers) -> list[pa.RecordBatch]:
    keep = np.ones(len(found), dtype=np.bool_)
    keep[left_out] = False
    return (found.filter(pa.array(keep)) if len(left_out) else found).to_batches()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Millions of texts, and not one of them in a cycle: looking for cycles costs a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def texts(source: Source, part: Part) -> list[bytes]:
    """The payload of each row of the part. As bytes: nobody promised that they are UTF-8."""
    return _texts(source.read(part.piece.files, ["json_payload"]), part.rows)


def digests(source: Source, part: Part) -> Hashed:
    """A digest of the payload of each row of the part."""
    return _digests(texts(source, part))


def _texts(found: pa.Table, rows: Numbers) -> list[bytes]:
    said: list[bytes] = found["json_payload"].take(pa.array(rows)).cast(pa.large_binary()).to_pylist()
    return said


def _digests(said: Sequence[bytes]) -> Hashed:
    each = (hashlib.blake2b(text, digest_size=8).digest() for text in said)
    return np.fromiter((int.from_bytes(digest) for digest in each), np.uint64, len(said))


class Discovery(NamedTuple):
    """What a piece holds: its payloads in grouped rows, digests of the competing ones, the broken messages in files."""

    summary: list[Mapping[str, Any]]
    digests: Hashed
    broken: pa.Table
    files: list[DataFile]


def discover(source: Source, errors: TableFiles, known: KnownShape, plan: BatchPlan, part: Part) -> Discovery:
    """One pass over the payloads of a piece before any row is written."""
    compared: list[bytes] = []

    def fresh() -> Iterator[pa.RecordBatch]:
        for rows, left_out, competing in source.files_of(part):
            compared.extend(_texts(rows, competing))
            yield from _without(rows, left_out)

    with _no_garbage_collection():
        found = pa.Table.from_batches(payloads.discover(fresh(), known), schema=payloads.DISCOVERY)
    summary = found.group_by(_SUMMARY).aggregate([([], "count_all"), ("nonsense_periods", "sum")])
    faults = found.filter(found["code"].is_valid())
    return Discovery(
        summary.rename_columns([*_SUMMARY, "rows", "nonsense"]).to_pylist(),
        _digests(compared),
        faults.select(IDENTITY),
        errors.write(parse_errors.rows(faults, plan)),
    )


def flatten(source: Source, target: TableFiles, shape: TableShape, part: Part) -> list[DataFile]:
    """Files with the rows of the Standardized table."""
    files: list[DataFile] = []
    held: list[pa.RecordBatch] = []
    size = 0
    with _no_garbage_collection():
        for batch in payloads.flatten(source.but(part), shape):
            held.append(batch)
            size += batch.nbytes
            if size > WRITTEN_AT_ONCE:
                files += target.write(pa.Table.from_batches(held))
                held, size = [], 0
    return files + target.write(pa.Table.from_batches(held, schema=shape.schema))


def versions(source: Source, shape: TableShape, columns: Sequence[str], part: Part) -> pa.Table:
    """Some columns of the rows of the Standardized table."""
    schema = pa.schema([shape.schema.field(name) for name in columns])
    rows = (batch.select(columns) for batch in payloads.flatten(source.but(part), shape))
    return pa.Table.from_batches(rows, schema=schema)
