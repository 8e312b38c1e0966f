"""Firehose takes for an Iceberg table what fits exactly, and says of the rest why it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from local.rows import Columns

SCHEMA = Schema(
    NestedField(1, "id", StringType(), required=True),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "big", LongType()),
    NestedField(4, "small", IntegerType()),
)
GOOD = {"id": "a", "at": 1_700_000_000_000_001, "big": 2**62, "small": -5}


def decoded(*records: Any) -> tuple[list[dict[str, Any]], dict[int, str]]:
    encoded = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in records]
    rows, refusals = Columns(SCHEMA).decode(encoded)
    return rows.to_pylist(), {refusal.index: refusal.code for refusal in refusals}


def test_a_record_becomes_a_row_with_exact_values() -> None:
    ((row,), refusals) = decoded(GOOD)
    assert refusals == {}
    assert (row["id"], row["big"], row["small"]) == ("a", 2**62, -5)
    assert row["at"].isoformat() == "2023-11-14T22:13:20.000001+00:00"


def test_null_is_a_value_where_the_column_allows_it() -> None:
    ((row,), refusals) = decoded(GOOD | {"at": None, "big": None, "small": None})
    assert refusals == {}
    assert row == {"id": "a", "at": None, "big": None, "small": None}


def test_a_field_that_the_table_does_not_have_is_dropped_silently() -> None:
    ((row,), refusals) = decoded(GOOD | {"more": [1, 2]})
    assert refusals == {}
    assert "more" not in row


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": None}, "Iceberg.TypeMismatch"),
        ({"id": 7}, "Iceberg.TypeMismatch"),
        ({"at": "2026-01-01T00:00:00Z"}, "Iceberg.TypeMismatch"),
        ({"at": 10**18}, "Iceberg.TypeMismatch"),
        ({"big": 2**63}, "Iceberg.TypeMismatch"),
        ({"big": 1.5}, "Iceberg.TypeMismatch"),
        ({"small": 2**31}, "Iceberg.TypeMismatch"),
    ],
)
def test_a_wrong_type_is_refused(change: dict[str, Any], code: str) -> None:
    assert decoded(GOOD | change) == ([], {0: code})


@pytest.mark.parametrize("record", [b"", b"{", b"\xff", b'{"id": "\xff"}', b"{}{}", b"[" * 5_000])
def test_what_is_not_one_json_object_is_refused(record: bytes) -> None:
    rows, refusals = decoded(record)
    assert (rows, list(refusals)) == ([], [0])


def test_a_missing_column_is_refused() -> None:
    assert decoded({"id": "a"}) == ([], {0: "Iceberg.MissingColumnWithinRecord"})


def test_one_bad_record_costs_only_itself() -> None:
    rows, refusals = decoded(GOOD, b"nonsense", GOOD | {"id": "c"})
    assert [row["id"] for row in rows] == ["a", "c"]
    assert list(refusals) == [1]
