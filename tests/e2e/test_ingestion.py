"""Messages through the whole stack, on both catalogs: what was sent is where it belongs, and is counted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lean_ops.aws import ingestion, recovery
from lean_ops.aws.catalog import open_catalog
from lean_ops.resources import DLQ_ARCHIVE_PREFIX
from tests.e2e.stack import LocalStack, running, wait_until

pytestmark = pytest.mark.e2e

PAYLOADS = [
    '{"amount": 1.10, "n": 1E400, "big": 12345678901234567890123456789}',
    '{ "spaces" :  [ 1 , 2 ] }',
    '{"text": "Grüße, 日本, \\ud83d\\ude00, \\u0000 and a quote \\" "}',
    "not JSON at all",
    "",
    '{"cut": ',
]


@pytest.fixture(scope="module", params=["local", pytest.param("localglue", marks=pytest.mark.stack)])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with running(tmp_path_factory.mktemp("home"), request.param) as started:
        yield started


def messages(count: int) -> list[dict[str, Any]]:
    mark = uuid.uuid4().hex
    return [
        {
            "message_id": f"{mark}-{number}",
            "publish_time": f"2026-11-1{number % 8}T10:00:00.{number:06d}Z",
            "idempotency_key": f"key-{number}" if number % 3 else None,
            "payload": PAYLOADS[number % len(PAYLOADS)],
        }
        for number in range(count)
    ]


def landed(stack: LocalStack, topic: str, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The RAW rows of sent messages, as the messages they came from."""
    mark = sent[0]["message_id"].partition("-")[0]
    columns = (
        "message_id, idempotency_key, json_payload as payload, "
        "strftime(publish_time at time zone 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ') as publish_time"
    )
    rows = stack.sql(
        f"select {columns} from iceberg_raw_db.{topic}_staging "  # noqa: S608 (the test's own words)
        f"where topic_name = '{topic}' and message_id like '{mark}-%'"
    )
    return sorted(rows, key=lambda row: int(row["message_id"].partition("-")[2]))


def errors(stack: LocalStack, table: str, topic: str) -> list[dict[str, Any]]:
    return stack.sql(f"select * from iceberg_raw_db.{table} where topic_name = '{topic}'")  # noqa: S608


@pytest.mark.parametrize("entry", ["sqs", "firehose"])
def test_what_was_sent_is_in_raw_byte_for_byte(stack: LocalStack, entry: str) -> None:
    sent = messages(60)
    stack.send("orders", sent, entry)
    stack.drain()
    assert landed(stack, "orders", sent) == sent


def test_a_payload_object_keeps_its_text(stack: LocalStack) -> None:
    sent = messages(1)
    line = json.dumps(sent[0] | {"payload": 0}).replace('"payload": 0', '"payload": {"a":1.10 , "b":[ ]}')
    stack.send("orders", [line])
    stack.drain()
    assert [row["payload"] for row in landed(stack, "orders", sent)] == ['{"a":1.10 , "b":[ ]}']


def test_a_message_sent_twice_is_in_raw_once_and_the_books_balance(stack: LocalStack) -> None:
    sent = messages(40)
    stack.send("payments", sent)
    stack.drain()
    stack.send("payments", sent + messages(10))
    stack.drain()
    assert landed(stack, "payments", sent) == sent
    catalog = open_catalog(stack.runtime.environment, stack.runtime.home)
    books = recovery.pre_raw_balance(catalog, ingestion.books(stack.runtime), "payments", received=90)
    assert books.balanced, books


def test_broken_envelopes_end_in_dlq_errors_with_the_reason_and_an_archive(stack: LocalStack) -> None:
    sound = messages(5)
    broken = ["not JSON", "[]", '{"message_id": "m", "payload": 7}', " "]
    stack.send("events", [*broken, *sound])
    stack.drain()
    assert landed(stack, "events", sound) == sound
    rows = errors(stack, "dlq_errors", "events")
    assert sorted(row["error_code"] for row in rows) == [
        "EMPTY_BODY",
        "NOT_JSON",
        "WRONG_SHAPE",
        "WRONG_SHAPE",
    ]
    assert {row["body"] for row in rows} == set(broken)
    assert {row["status"] for row in rows} == {"open"}
    s3, bucket = stack.client("s3"), stack.runtime.names.ops_bucket
    archived = [s3.get_object(Bucket=bucket, Key=row["archive_key"])["Body"].read().decode() for row in rows]
    assert all(row["archive_key"].startswith(f"{DLQ_ARCHIVE_PREFIX}events/") for row in rows)
    assert all(json.dumps(row["body"]) in text for row, text in zip(rows, archived, strict=True))


def test_what_firehose_cannot_deliver_ends_in_firehose_errors(stack: LocalStack) -> None:
    record = {
        "message_id": uuid.uuid4().hex,
        "topic_name": "nowhere",
        "publish_time": 1_794_000_000_000_000,
        "ingestion_ts": 1_794_000_000_000,
        "idempotency_key": None,
        "json_payload": "{}",
    }
    stack.client("firehose").put_record(
        DeliveryStreamName=stack.runtime.names.delivery_stream, Record={"Data": json.dumps(record).encode()}
    )
    stack.drain()
    rows = wait_until(lambda: errors(stack, "firehose_errors", "nowhere"))
    assert [(row["message_id"], row["error_code"]) for row in rows] == [
        (record["message_id"], "Iceberg.NoSuchTable")
    ]
