"""Payloads in Arrow batches: every row in one place, whatever the batches look like."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.errors import LeanOpsError
from lean_ops.payload.columns import ENVELOPE, OVERFLOW, extend, registry
from lean_ops.payload.flatten import ParseFault, leaves
from lean_ops.payload.survey import Survey
from spark_jobs.transforms import payloads
from spark_jobs.transforms.payloads import FAULTS, TableColumn, TableShape, flatten, take_apart
from tests.json_texts import ALIKE_DOCUMENTS, damaged

PUBLISHED = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)
RAW = pa.schema(
    [
        ("message_id", pa.string()),
        ("topic_name", pa.string()),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("ingestion_ts", pa.int64()),
        ("idempotency_key", pa.string()),
        ("json_payload", pa.string()),
        ("_pos", pa.int64()),
    ]
)
TEXTS = st.lists(st.one_of(ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, damaged(), st.none()), max_size=8)


def raw(texts: Iterable[str | bytes | None], **columns: Any) -> pa.RecordBatch:
    """RAW rows around some payloads."""
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    size = len(encoded)
    rows = {
        "message_id": [f"m{number}" for number in range(size)],
        "topic_name": ["t"] * size,
        "publish_time": [PUBLISHED + timedelta(days=number) for number in range(size)],
        "ingestion_ts": list(range(size)),
        "idempotency_key": [None] * size,
        "json_payload": pa.array(encoded, pa.binary()).view(pa.string()),
        "_pos": list(range(size)),
    } | columns
    return pa.record_batch([pa.array(rows[field.name], field.type) for field in RAW], schema=RAW)


def shape(*paths: str, overflow: bool = True, **keys: str) -> TableShape:
    added = extend(registry([]), paths, 1000, "add").added
    own = (*(TableColumn(name) for name in ENVELOPE), *([TableColumn(OVERFLOW)] if overflow else []))
    return TableShape((*own, *(TableColumn(name, path, ("string",)) for name, path in added)), **keys)


def rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    return pa.Table.from_batches(batches, schema=schema).to_pylist()


def flattened(batch: pa.RecordBatch, of: TableShape) -> list[dict[str, Any]]:
    return rows(flatten(iter([batch]), of), of.schema)


def broken(batch: pa.RecordBatch, of: TableShape) -> list[dict[str, Any]]:
    """The faults, without the columns that are empty in them."""
    found = rows((taken.faults for taken in take_apart([batch], of, Survey(of.known))), FAULTS)
    return [{name: value for name, value in row.items() if value is not None} for row in found]


@given(TEXTS, st.integers(1, 3), st.integers(1, 40), st.integers(0, 3))
def test_every_row_is_flattened_or_reported_however_the_batches_are_cut(
    texts: list[str | None], most_rows: int, most_bytes: int, offset: int
) -> None:
    of = shape("a", "b", "a.a", "a.b")
    batch = raw(texts).slice(offset)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payloads, "CHUNK_ROWS", most_rows)
        patch.setattr(payloads, "CHUNK_BYTES", most_bytes)
        table = {row["message_id"]: row for row in flattened(batch, of)}
        faults = {row["message_id"]: row for row in broken(batch, of)}
    for number, text in list(enumerate(texts))[offset:]:
        name, said = f"m{number}", leaves(text)
        if isinstance(said, ParseFault):
            assert name not in table
            expected = {
                "message_id": name,
                "publish_time": PUBLISHED + timedelta(days=number),
                "ingestion_ts": number,
            }
            expected |= {"code": said.code, "detail": said.detail}
            assert faults[name] == expected | ({} if text is None else {"json_payload": text})
        else:
            assert name not in faults
            overflow = json.loads(table[name][OVERFLOW] or "{}")
            columns = {column.path: table[name][column.name] for column in of.columns if column.path}
            held = {path: value for path, value in columns.items() if value is not None} | overflow
            assert held == {path: leaf.text for path, leaf in said.items()}


def test_rows_come_in_the_order_and_types_of_the_table() -> None:
    of = TableShape(
        (
            TableColumn("a", "a"),
            TableColumn("ingestion_ts"),
            TableColumn(OVERFLOW),
            TableColumn("period_reference"),
            TableColumn("somebodys_own"),
            TableColumn("publish_time"),
        )
    )
    (row,) = flattened(raw(['{"a":1.50,"c":2}']), of)
    assert list(row.items()) == [
        ("a", "1.50"),
        ("ingestion_ts", 0),
        (OVERFLOW, '{"c":"2"}'),
        ("period_reference", "2026-01"),
        ("somebodys_own", None),
        ("publish_time", PUBLISHED),
    ]


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string()])
def test_small_and_large_texts_are_taken_alike(text_type: pa.DataType) -> None:
    batch = raw(['{"a":"x"}', None, "{"])
    at = batch.schema.get_field_index("json_payload")
    batch = batch.set_column(at, "json_payload", batch.column(at).cast(text_type))
    assert [row["a"] for row in flattened(batch, shape("a"))] == ["x"]
    assert [row["code"] for row in broken(batch, shape("a"))] == ["EMPTY", "CUT_OFF"]


def test_empty_batches_and_no_batches_give_no_rows() -> None:
    of = shape("a")
    assert flattened(raw([]), of) == []
    assert rows(flatten(iter([]), of), of.schema) == []
    assert broken(raw([]), of) == []


def test_who_needs_a_column_that_may_come_is_set_aside_and_the_others_are_rows() -> None:
    batch, of = raw(['{"a":1}', '{"a":2,"b":1}', "{", '{"a":3}', '{"b":2}']), replace(shape("a"), room=1)
    (taken,) = take_apart([batch], of, Survey(of.known))
    assert taken.rows["a"].to_pylist() == ["1", "3"]
    assert taken.faults["message_id"].to_pylist() == ["m2"]
    assert taken.set_aside.to_pylist() == [row for row in batch.to_pylist() if row["_pos"] in (1, 4)]


def test_a_table_without_overflow_refuses_to_lose_anything() -> None:
    with pytest.raises(LeanOpsError, match="_overflow"):
        flattened(raw(['{"a":1,"b":2}']), shape("a", overflow=False))
    assert len(flattened(raw(['{"a":1}', "{"]), shape("a", overflow=False))) == 1


def test_overflow_is_one_json_object_with_sorted_paths() -> None:
    (row,) = flattened(raw(['{"z":[1, "\\""],"é.":"\\u0000","b":{"":{}}}']), shape("a"))
    assert row[OVERFLOW] == '{"b.\\\\e":"{}","z":"[1, \\"\\\\\\"\\"]","é\\\\.":"\\u0000"}'
    assert json.loads(row[OVERFLOW]) == {"b.\\e": "{}", "z": '[1, "\\""]', "é\\.": "\x00"}


@pytest.mark.parametrize("columns", [("k",), ()], ids=["with a column", "in overflow"])
def test_the_envelopes_own_key_wins_and_the_payload_fills_a_missing_one(columns: tuple[str, ...]) -> None:
    texts = ['{"k":"from payload"}', '{"k":"from payload"}', '{"k":""}', '{"k":17}', "{}", '{"k":null}']
    batch = raw(texts, idempotency_key=["own", "", None, None, None, ""])
    found = [row["idempotency_key"] for row in flattened(batch, shape(*columns, idempotency_path="k"))]
    assert found == ["own", "from payload", None, "17", None, None]


def test_without_a_path_only_the_envelope_has_a_key() -> None:
    batch = raw(['{"k":"x"}'] * 2, idempotency_key=["own", ""])
    assert [row["idempotency_key"] for row in flattened(batch, shape("k"))] == ["own", None]


@pytest.mark.parametrize("columns", [("p",), ()], ids=["with a column", "in overflow"])
def test_the_period_is_what_the_payload_says_if_it_is_a_month(columns: tuple[str, ...]) -> None:
    texts = ['{"p":"2019-07"}', '{"p":"2019-13"}', "{}", '{"p":null}', '{"p":201907}', "{"]
    of = shape(*columns, period_path="p")
    found = [row["period_reference"] for row in flattened(raw(texts), of)]
    assert found == ["2019-07", "2026-02", "2026-02", "2026-02", "2026-02"]


def test_the_month_of_publication_is_that_of_utc() -> None:
    ends = [datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    batch = raw(["{}"] * 4, publish_time=[*ends, datetime(1969, 12, 31, tzinfo=UTC), None])
    at = batch.schema.get_field_index("publish_time")
    elsewhere = batch.column(at).cast(pa.timestamp("us", tz="Asia/Tokyo"))
    for moved in (batch, batch.set_column(at, "publish_time", elsewhere)):
        assert [row["period_reference"] for row in flattened(moved, shape())] == [
            "2026-01",
            "2026-02",
            "1969-12",
            None,
        ]


@pytest.mark.parametrize("bad", [b'{"a":"\xff"}', b'{"a":["\xed\xa0\x80"]}', b'{"\xff":1}', b"\xff"])
def test_bytes_that_are_no_utf_8_are_reported_as_they_are_and_harm_no_neighbour(bad: bytes) -> None:
    batch = raw(['{"a":"x"}', bad, '{"a":"é"}', None])
    assert [row["a"] for row in flattened(batch, shape("a"))] == ["x", "é"]
    (taken,) = take_apart([batch], shape("a"), Survey(shape("a").known))
    assert taken.faults["code"].to_pylist() == ["BAD_UNICODE", "EMPTY"]
    assert taken.faults["json_payload"].view(pa.large_binary())[0].as_py() == bad


def test_shapes_travel_to_the_executors_and_are_values() -> None:
    for each in (shape("a", period_path="p"), shape("a", period_path="p").known):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301 - our own bytes
        assert hash(each) == hash(pickle.loads(pickle.dumps(each)))  # noqa: S301


def test_ten_thousand_keys_fill_the_columns_and_overflow() -> None:
    texts = [json.dumps({f"k{number:05d}": number for number in range(10_000)})] * 3
    of = shape(*(f"k{number:05d}" for number in range(500)))
    found = flattened(raw(texts), of)
    assert len(found) == 3
    assert found[2]["k00499"] == "499"
    assert len(json.loads(found[2][OVERFLOW])) == 9500


def test_huge_texts_are_spread_over_chunks_of_bounded_size() -> None:
    text = json.dumps({"a": "x" * 20_000_000})
    batches = list(flatten(iter([raw([text] * 5)]), shape("a")))
    assert [batch.num_rows for batch in batches] == [1] * 5
    assert sum(batch.num_rows for batch in flatten(iter([raw(["{}"] * 5000)]), shape("a"))) == 5000


def test_wide_tables_are_written_in_short_chunks() -> None:
    of = shape(*(f"k{number}" for number in range(1000)))
    sizes = [batch.num_rows for batch in flatten(iter([raw(["{}"] * 1200)]), of)]
    assert max(sizes) * 1000 <= payloads.CHUNK_CELLS
    assert sum(sizes) == 1200
