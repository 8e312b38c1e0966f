"""Payloads in Arrow batches taken apart: the rows of the Standardized table, and what cannot be one, or not yet.

Batches are cut into chunks bounded in rows, cells and bytes, so that neither wide tables nor huge texts decide how
much memory a task takes. Envelope columns and broken payloads pass as they are, never through Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lean_ops.errors import LeanOpsError
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from lean_ops.payload.flatten import Kind, ParseFault
from lean_ops.payload.periods import is_period, month
from lean_ops.payload.survey import KnownShape, Survey, Texts

CHUNK_ROWS = 2_000
CHUNK_CELLS = 500_000
CHUNK_BYTES = 32 * 1024 * 1024

_TEXT = pa.large_string()
_ENVELOPE = pa.schema(
    [
        ("message_id", _TEXT),
        ("topic_name", _TEXT),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("ingestion_ts", pa.int64()),
        ("idempotency_key", _TEXT),
    ]
)
_IDENTIFYING = ("message_id", "publish_time", "ingestion_ts", "idempotency_key")
FAULTS = pa.schema(
    [
        *(_ENVELOPE.field(name) for name in _IDENTIFYING),
        ("json_payload", _TEXT),
        ("code", _TEXT),
        ("detail", _TEXT),
    ]
)
_NOT_UTF8 = b"\xff"


class TableColumn(NamedTuple):
    """A column of the Standardized table; envelope columns and `_overflow` have no path."""

    name: str
    path: str | None = None
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class TableShape:
    """The columns of the Standardized table in its order, and where the payload holds the keys.

    So many new paths (`room`) may become columns yet.
    """

    columns: tuple[TableColumn, ...]
    idempotency_path: str | None = None
    period_path: str | None = None
    room: int = 0

    @property
    def schema(self) -> pa.Schema:
        types = {field.name: field.type for field in _ENVELOPE}
        return pa.schema([(column.name, types.get(column.name, _TEXT)) for column in self.columns])

    @property
    def known(self) -> KnownShape:
        return KnownShape(
            tuple((column.path, column.kinds) for column in self.columns if column.path is not None),
            self.room,
            any(column.name == OVERFLOW for column in self.columns),
            self.idempotency_path,
            self.period_path,
        )

    def of_any_row(self) -> TableShape:
        """A shape that has a place for every leaf, without another column for any."""
        overflow = () if self.known.overflow else (TableColumn(OVERFLOW),)
        return replace(self, columns=(*self.columns, *overflow), room=0)


class Taken(NamedTuple):
    """What became of some messages: rows of the table, faults, or set aside until the table has their columns."""

    rows: pa.RecordBatch
    faults: pa.RecordBatch
    set_aside: pa.RecordBatch


def take_apart(batches: Iterable[pa.RecordBatch], shape: TableShape, survey: Survey) -> Iterator[Taken]:
    """Every message ends in one of the three; the survey remembers what was seen."""
    for batch in batches:
        for chunk, payloads in _chunks(batch, width=len(shape.columns)):
            texts = survey.read(payloads)
            yield Taken(
                _table_rows(chunk, texts, shape),
                _fault_rows(chunk, texts.faults),
                chunk.take(pa.array(sorted(texts.set_aside), pa.int64())),
            )


def flatten(batches: Iterable[pa.RecordBatch], shape: TableShape) -> Iterator[pa.RecordBatch]:
    """The rows of a table that does not grow; those with a broken payload are left out."""
    for taken in take_apart(batches, shape, Survey(shape.known)):
        if len(taken.set_aside):
            raise LeanOpsError("the table has no _overflow column, and the payloads need one")
        yield taken.rows


def _table_rows(chunk: pa.RecordBatch, texts: Texts, shape: TableShape) -> pa.RecordBatch:
    made = {
        "idempotency_key": _idempotency_key(chunk, texts, shape.idempotency_path),
        "period_reference": _period_reference(chunk, texts, shape.period_path),
        OVERFLOW: pa.array(texts.overflow, _TEXT),
    }
    arrays = []
    for column, field in zip(shape.columns, shape.schema, strict=True):
        if column.path is not None:
            arrays.append(pa.array(texts.columns[column.path], _TEXT))
        elif column.name in made:
            arrays.append(made[column.name])
        elif column.name in ENVELOPE:
            arrays.append(chunk.column(column.name).cast(field.type))
        else:
            arrays.append(pa.nulls(len(chunk), field.type))  # somebody's own column, not of the payload
    rows = pa.record_batch(arrays, schema=shape.schema)
    gone = texts.faults.keys() | texts.set_aside
    return rows.filter(pa.array([row not in gone for row in range(len(chunk))])) if gone else rows


def _idempotency_key(chunk: pa.RecordBatch, texts: Texts, path: str | None) -> pa.Array:
    """The envelope's own key wins. An empty text is no key: all records with one would be the same record."""
    own = _unless_empty(chunk.column("idempotency_key").cast(_TEXT))
    if path is None:
        return own
    return pc.coalesce(own, _unless_empty(pa.array(texts.columns[path], _TEXT)))


def _period_reference(chunk: pa.RecordBatch, texts: Texts, path: str | None) -> pa.Array:
    published = _published_months(chunk.column("publish_time"))
    if path is None:
        return published
    # Periods repeat, so each distinct text is judged once.
    named = pa.array(texts.columns[path], _TEXT).dictionary_encode()
    sensible = [
        text if text is not None and is_period(text) else None for text in named.dictionary.to_pylist()
    ]
    return pc.coalesce(pa.array(sensible, _TEXT).take(named.indices), published)


def _published_months(publish_time: pa.Array) -> pa.Array:
    utc = publish_time.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
    number = pc.add(pc.multiply(pc.year(utc), 12), pc.subtract(pc.month(utc), 1)).dictionary_encode()
    months = [month(each // 12, each % 12 + 1) for each in number.dictionary.to_pylist()]
    return pa.array(months, _TEXT).take(number.indices)


def _unless_empty(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, _TEXT), texts)


def _fault_rows(chunk: pa.RecordBatch, faults: Mapping[int, ParseFault]) -> pa.RecordBatch:
    rows = chunk.take(pa.array(list(faults), pa.int64()))
    columns = [rows.column(name) for name in (*_IDENTIFYING, "json_payload")]
    columns += [pa.array([fault.code.value for fault in faults.values()], _TEXT)]
    columns += [pa.array([fault.detail for fault in faults.values()], _TEXT)]
    return pa.record_batch(
        [column.cast(field.type) for column, field in zip(columns, FAULTS, strict=True)], FAULTS
    )


def _chunks(batch: pa.RecordBatch, width: int) -> Iterator[tuple[pa.RecordBatch, list[bytes | None]]]:
    texts = batch.column("json_payload").cast(_TEXT)
    if not len(texts):
        return
    _validity, offsets_buffer, data = texts.buffers()
    offsets = memoryview(offsets_buffer).cast("q")[texts.offset : texts.offset + len(texts) + 1].tolist()
    most_rows = max(1, min(CHUNK_ROWS, CHUNK_CELLS // max(1, width)))
    start = 0
    while start < len(texts):
        by_bytes = bisect_right(offsets, offsets[start] + CHUNK_BYTES) - 1
        stop = min(len(texts), start + most_rows, max(start + 1, by_bytes))
        payloads = _payloads(texts.slice(start, stop - start), offsets[start : stop + 1], data)
        yield batch.slice(start, stop - start), payloads
        start = stop


def _payloads(texts: pa.Array, offsets: list[int], data: pa.Buffer | None) -> list[bytes | None]:
    """The bytes of some texts: ten times as fast as `to_pylist`, and blind to what is no UTF-8."""
    source = data[offsets[0] : offsets[-1]].to_pybytes() if data else b""
    base = offsets[0]
    payloads: list[bytes | None] = [source[start - base : stop - base] for start, stop in pairwise(offsets)]
    if texts.null_count:
        payloads = [
            payload if valid else None
            for payload, valid in zip(payloads, texts.is_valid().to_pylist(), strict=True)
        ]
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # Spark takes any bytes for a string. The mould must not see them: a document of one bad byte stands in.
        payloads = [payload if payload is None or _is_utf8(payload) else _NOT_UTF8 for payload in payloads]
    return payloads


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
