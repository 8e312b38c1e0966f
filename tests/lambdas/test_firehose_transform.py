"""The transform: every record answered, none of them able to hurt another."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lambdas.firehose_transform.handler import handler
from lean_ops import tables
from lean_ops.ingestion import raw_record
from lean_ops.ingestion.intake import Delivery, Message, prepare
from lean_ops.ingestion.raw_record import RawRecord

SENT = 1_794_996_000_000_000
GOOD = raw_record.text(RawRecord("m1", "orders", SENT, SENT // 1000, None, "{}")).encode()


def transform(*records: object) -> list[dict[str, Any]]:
    """As Firehose invokes it."""
    event = {
        "invocationId": "i",
        "deliveryStreamArn": "arn:aws:firehose:us-east-1:123456789012:deliverystream/lo-raw",
        "region": "us-east-1",
        "records": [
            {"recordId": str(index), "approximateArrivalTimestamp": 1, "data": data}
            for index, data in enumerate(records)
        ],
    }
    answered: list[dict[str, Any]] = handler(event, None)["records"]
    return answered


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_record_has_exactly_the_columns_of_raw() -> None:
    assert RawRecord.__struct_fields__ == tuple(column.name for column in tables.RAW_COLUMNS)


def test_a_record_is_routed_to_its_topics_table_and_returned_as_it_came() -> None:
    [answer] = transform(encoded(GOOD))
    assert answer == {
        "recordId": "0",
        "result": "Ok",
        "data": encoded(GOOD),
        "metadata": {
            "otfMetadata": {
                "destinationDatabaseName": "iceberg_raw_db",
                "destinationTableName": "orders_staging",
                "operation": "insert",
            }
        },
    }


def changed(**fields: object) -> str:
    return encoded(json.dumps(json.loads(GOOD) | fields).encode())


@pytest.mark.parametrize(
    "data",
    [
        "",
        None,
        7,
        "not base64!",
        "é",
        encoded(b""),
        encoded(b"\xff\xfe"),
        encoded(b"{}"),
        encoded(b"[]"),
        encoded(b"[" * 100_000),
        encoded(GOOD + GOOD),
        changed(topic_name="no/such topic"),
        changed(topic_name="dlq_errors"),
        changed(publish_time="2026-11-18T08:00:00Z"),
        changed(publish_time=9_999_999_999_999_999_999),
        changed(publish_time=-1),
        changed(ingestion_ts=2**63),
        changed(message_id=None),
        changed(surprise=1),
    ],
)
def test_a_record_that_is_no_row_fails_alone(data: object) -> None:
    answers = transform(encoded(GOOD), data, encoded(GOOD))
    assert [answer["recordId"] for answer in answers] == ["0", "1", "2"]
    assert [answer["result"] for answer in answers] == ["Ok", "ProcessingFailed", "Ok"]
    assert answers[1]["data"] == data


payloads = st.one_of(
    st.text(),
    st.dictionaries(
        st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), max_size=5
    ),
)


@settings(max_examples=300)
@given(payloads, st.text(), st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", "\t:  ")]), st.booleans())
def test_a_payload_survives_byte_for_byte_from_the_envelope_to_the_table(
    payload: str | dict[str, object], message_id: str, separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(payload, separators=separators, ensure_ascii=ascii_only)
    body = f'{{"message_id": {json.dumps(message_id)}, "payload": {text}}}'
    message = prepare("orders", Delivery("sqs-id", body, SENT, 1), SENT / 1e6)
    assert isinstance(message, Message)
    [answer] = transform(encoded(message.record))
    assert answer["result"] == "Ok"
    row = json.loads(base64.b64decode(answer["data"]))
    assert row["json_payload"].encode() == (text if isinstance(payload, dict) else payload).encode()
    assert row["message_id"] == (message_id or "sqs-id")
