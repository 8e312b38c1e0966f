"""Payloads in Arrow batches: `discover` finds what is new or broken, `flatten` makes the Standardized rows.

Both are meant for `mapInArrow` (bind the shape with `functools.partial`), and run without Spark. Batches are cut
into chunks bounded in rows, cells and bytes, so that neither wide tables nor huge texts decide how much memory
a task takes. Envelope columns and broken payloads pass as they are, never through Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lean_ops.errors import LeanOpsError
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from lean_ops.payload.flatten import Kind, ParseFault
from lean_ops.payload.mould import Mould
from lean_ops.payload.periods import is_period, month
from lean_ops.payload.survey import Findings, KnownShape, Survey
from lean_ops.payload.tabulate import Texts, tabulate

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
# One schema for three sorts of rows: a fault has a code, a leaf has a path, the totals have a count.
DISCOVERY = pa.schema(
    [
        *(_ENVELOPE.field(name) for name in _IDENTIFYING),
        ("json_payload", _TEXT),
        ("code", _TEXT),
        ("detail", _TEXT),
        ("path", _TEXT),
        ("kind", _TEXT),
        ("overflow", pa.bool_()),
        ("nonsense_periods", pa.int64()),
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
    """The columns of the Standardized table in its order, and where the payload holds the keys."""

    columns: tuple[TableColumn, ...]
    idempotency_path: str | None = None
    period_path: str | None = None

    @property
    def schema(self) -> pa.Schema:
        types = {field.name: field.type for field in _ENVELOPE}
        return pa.schema([(column.name, types.get(column.name, _TEXT)) for column in self.columns])


def discover(batches: Iterator[pa.RecordBatch], known: KnownShape) -> Iterator[pa.RecordBatch]:
    """The broken payloads with their faults; then, once per task, the leaves that were seen."""
    survey = Survey(known)
    for batch in batches:
        for chunk, payloads in _chunks(batch, width=len(known.kinds)):
            faults = survey.read(payloads)
            if faults:
                yield _fault_rows(chunk, faults)
    yield _finding_rows(survey.findings())


def flatten(batches: Iterator[pa.RecordBatch], shape: TableShape) -> Iterator[pa.RecordBatch]:
    """The rows of the Standardized table; rows with a broken payload are left out."""
    paths = {column.path: column.kinds for column in shape.columns if column.path is not None}
    keys = {path for path in (shape.idempotency_path, shape.period_path) if path is not None}
    mould = Mould(paths, exact=True)
    for batch in batches:
        for chunk, payloads in _chunks(batch, width=len(paths)):
            yield _table_rows(chunk, tabulate(payloads, mould, paths.keys(), keys), shape)


def _table_rows(chunk: pa.RecordBatch, texts: Texts, shape: TableShape) -> pa.RecordBatch:
    made = {
        "idempotency_key": _idempotency_key(chunk, texts, shape.idempotency_path),
        "period_reference": _period_reference(chunk, texts, shape.period_path),
        OVERFLOW: pa.array(texts.overflow, _TEXT),
    }
    if OVERFLOW not in shape.schema.names and texts.has_overflow:
        raise LeanOpsError("the table has no _overflow column, and the payloads need one")
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
    return rows.filter(_all_but(texts.faults, len(chunk))) if texts.faults else rows


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


def _all_but(rows: dict[int, ParseFault], length: int) -> pa.Array:
    return pa.array([row not in rows for row in range(length)])


def _fault_rows(chunk: pa.RecordBatch, faults: list[tuple[int, ParseFault]]) -> pa.RecordBatch:
    rows = chunk.take(pa.array([row for row, _ in faults]))
    return _discovery(
        len(faults),
        {name: rows.column(name) for name in (*_IDENTIFYING, "json_payload")}
        | {
            "code": pa.array([fault.code.value for _, fault in faults]),
            "detail": pa.array([fault.detail for _, fault in faults]),
        },
    )


def _finding_rows(found: Findings) -> pa.RecordBatch:
    leaves = [(path, kind) for path, kinds in sorted(found.kinds.items()) for kind in sorted(kinds)]
    return _discovery(
        len(leaves) + 1,
        {
            "path": pa.array([*(path for path, _ in leaves), None], _TEXT),
            "kind": pa.array([*(kind for _, kind in leaves), None], _TEXT),
            "overflow": pa.array([None] * len(leaves) + [found.overflow]),
            "nonsense_periods": pa.array([None] * len(leaves) + [found.nonsense_periods]),
        },
    )


def _discovery(length: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(length, field.type)
        for field in DISCOVERY
    ]
    return pa.record_batch(arrays, schema=DISCOVERY)


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
