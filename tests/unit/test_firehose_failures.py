"""Every line under Firehose's error prefix becomes a record, a data file, or a text that is kept."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.ingestion import firehose_failures, raw_record
from lean_ops.ingestion.attempts import NO_TOPIC
from lean_ops.ingestion.firehose_failures import UNREADABLE, Failure
from lean_ops.ingestion.raw_record import RawRecord

RECORD = RawRecord("m1", "orders", 1_794_990_600_123_456, 1_794_990_601_000, None, '{"a": 1.10}')
DATA_FILE = "s3://lake/warehouse/iceberg_raw_db/orders_staging/data/publish_time_day=2026-11-18/00000.parquet"


def line(raw: bytes, **more: object) -> bytes:
    """As AWS writes it."""
    fields = {
        "attemptsMade": 4,
        "arrivalTimestamp": 1794990600000,
        "errorCode": "Lambda.FunctionError",
        "errorMessage": "The Lambda function was successfully invoked but it returned an error result.",
        "attemptEndingTimestamp": 1794990676000,
        "rawData": base64.b64encode(raw).decode(),
        "lambdaArn": "arn:aws:lambda:us-east-1:123456789012:function:lo-firehose-transform:$LATEST",
    }
    return json.dumps(fields | more).encode()


def read(body: bytes) -> list[Failure]:
    return list(firehose_failures.read(body))


@pytest.mark.parametrize("compress", [False, True])
def test_a_record_is_found_with_its_reason(compress: bool) -> None:
    body = b"\n".join([line(raw_record.text(RECORD).encode())] * 2) + b"\n"
    failures = read(gzip.compress(body) if compress else body)
    assert [failure.record for failure in failures] == [RECORD, RECORD]
    assert failures[0].code == "Lambda.FunctionError"
    assert failures[0].text == raw_record.text(RECORD)


@pytest.mark.parametrize(
    "body",
    [
        DATA_FILE.encode(),
        json.dumps({"errorCode": "Iceberg.CommitFailed", "dataFiles": [DATA_FILE]}).encode(),
        json.dumps([{"file_path": DATA_FILE}]).encode(),
        line(json.dumps({"files": [DATA_FILE]}).encode()),
    ],
)
def test_the_path_of_a_data_file_is_found_wherever_it_stands(body: bytes) -> None:
    [failure] = read(body)
    assert failure.data_file == DATA_FILE


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"\xff\xfe",
        b"{}",
        b"[1]",
        b'{"rawData": "***"}',
        b'{"rawData": 7}',
        line(b""),
        line(b'{"topic_name": "orders"}'),
        line(b"\xff"),
        b"\x1f\x8b broken",
        b"[" * 100_000,
    ],
)
def test_what_is_neither_is_kept_as_one_unreadable_row(body: bytes) -> None:
    [row] = firehose_failures.attempts(read(body), "key", 7, 0.0)
    assert (row.identity.topic, row.error_code) == (NO_TOPIC, UNREADABLE)
    assert row.content["record"]


def test_a_record_of_an_illegal_topic_is_unreadable() -> None:
    odd = RawRecord("m1", "no/such topic", 1, 1, None, "")
    [row] = firehose_failures.attempts(read(line(raw_record.text(odd).encode())), "key", 7, 0.0)
    assert row.error_code == UNREADABLE


@given(st.binary(max_size=200))
def test_no_object_makes_it_raise(body: bytes) -> None:
    rows = list(firehose_failures.attempts(read(body), "key", 7, 0.0))
    assert bool(rows) == bool(body.strip())


def test_the_rows_of_an_object_have_names_of_their_own() -> None:
    rows = list(firehose_failures.attempts(read(b"a\nb\na\n"), "key", 7, 0.0))
    assert len({row.record_id for row in rows}) == 3
    assert [row.content["record"] for row in rows] == ["a", "b", "a"]
