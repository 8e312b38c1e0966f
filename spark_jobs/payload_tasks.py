"""What a task does with files of RAW: take their payloads apart and write what becomes of them."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from lean_ops import tables
from lean_ops.aws.table_files import TableFiles
from lean_ops.batch.batch_plan import BatchPlan
from lean_ops.payload.survey import Findings, Survey
from spark_jobs import parse_errors
from spark_jobs.identities import Hashed, Mask, Numbers, hashes
from spark_jobs.pieces import Piece
from spark_jobs.source import Source
from spark_jobs.transforms import payloads
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.payloads import FAULTS, TableShape

# So much of a piece is held at once; beyond it, another file per partition begins.
WRITTEN_AT_ONCE = 256 * 1024 * 1024
# So many messages tell what a table without columns should look like; whoever differs is set aside.
SAMPLE = 2_000

_RAW = [column.name for column in tables.RAW_COLUMNS]
_PLACE = "_place"


@dataclass(frozen=True)
class Part:
    """A piece with some of its rows, and those whose payloads are to be compared."""

    piece: Piece
    rows: Mask
    compared: Mask


def _chosen(found: pa.Table, rows: Mask) -> list[pa.RecordBatch]:
    """The marked rows of a piece, each with its place in it."""
    placed = found.append_column(_PLACE, pa.array(np.arange(len(found))))
    return (placed if rows.all() else placed.filter(pa.array(rows))).to_batches()


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


def identity_hashes(source: Source, part: Part) -> Hashed:
    """Of each row the hash that fingerprints sum."""
    return hashes(source.read(part.piece.files, IDENTITY))


def digests(source: Source, part: Part) -> Hashed:
    """A digest of the payload of each row of the part."""
    return _digests(texts(source, part))


def _texts(found: pa.Table, rows: Mask) -> list[bytes]:
    said: list[bytes] = found["json_payload"].filter(pa.array(rows)).cast(pa.large_binary()).to_pylist()
    return said


def _digests(said: Sequence[bytes]) -> Hashed:
    each = (hashlib.blake2b(text, digest_size=8).digest() for text in said)
    return np.fromiter((int.from_bytes(digest) for digest in each), np.uint64, len(said))


def learn(source: Source, shape: TableShape, part: Part) -> Findings:
    """What the first rows of a part hold."""
    survey = Survey(shape.known)
    found = source.read(part.piece.files[:1], _RAW)
    sample = pa.Table.from_batches(_chosen(found, part.rows[: len(found)])).slice(length=SAMPLE)
    for _ in payloads.take_apart(sample.to_batches(), shape, survey):
        pass
    return survey.findings()


@dataclass(frozen=True)
class Targets:
    """Where rows and broken messages of a plan are written to."""

    rows: TableFiles
    errors: TableFiles
    plan: BatchPlan


class Taken(NamedTuple):
    """What became of a part: rows and broken messages in files, places of those set aside, and what was seen."""

    files: list[DataFile]
    error_files: list[DataFile]
    broken: pa.Table
    codes: list[str]
    set_aside: Numbers
    digests: Hashed
    findings: Findings


@dataclass
class _Written:
    """Rows on their way into files."""

    target: TableFiles
    files: list[DataFile] = field(default_factory=list)
    held: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.held.append(rows)
        self.size += rows.nbytes
        if self.size > WRITTEN_AT_ONCE:
            self.finish()

    def finish(self) -> list[DataFile]:
        if self.held:
            self.files += self.target.write(pa.Table.from_batches(self.held))
        self.held, self.size = [], 0
        return self.files


def take_apart(source: Source, targets: Targets, shape: TableShape, part: Part) -> Taken:
    """One pass over the payloads of a part."""
    survey, written = Survey(shape.known), _Written(targets.rows)
    found = source.read(part.piece.files, _RAW)
    set_aside: list[Numbers] = [np.empty(0, np.int64)]
    broken: list[pa.RecordBatch] = []

    with _no_garbage_collection():
        for taken in payloads.take_apart(_chosen(found, part.rows), shape, survey):
            written.add(taken.rows)
            broken.append(taken.faults)
            set_aside.append(taken.set_aside[_PLACE].to_numpy())
    faults = pa.Table.from_batches(broken, schema=FAULTS)
    return Taken(
        written.finish(),
        targets.errors.write(parse_errors.rows(faults, targets.plan)),
        faults.select(IDENTITY),
        faults["code"].to_pylist(),
        np.concatenate(set_aside),
        _digests(_texts(found, part.compared)),
        survey.findings(),
    )


def versions(source: Source, shape: TableShape, columns: Sequence[str], part: Part) -> pa.Table:
    """Some columns of the rows of the Standardized table, which may lack columns yet."""
    any_row = shape.of_any_row()
    schema = pa.schema([any_row.schema.field(name) for name in columns])
    chosen = _chosen(source.read(part.piece.files, _RAW), part.rows)
    rows = (batch.select(columns) for batch in payloads.flatten(chosen, any_row))
    return pa.Table.from_batches(rows, schema=schema)
