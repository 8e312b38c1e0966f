"""What a Pub/Sub message becomes in SQS."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.envelope import Message, body, data_url
from lean_ops.ingestion import envelope

WHEN = datetime(2026, 2, 6, 12, 30, 0, 123456, tzinfo=UTC)
# The only characters that SQS takes in a body.
SQS_TEXT = re.compile(r"[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def a_message(data: bytes = b"{}", idempotency_key: str | None = None) -> Message:
    return Message("receipt", "m1", WHEN, data, idempotency_key=idempotency_key)


@given(text=st.text(), key=st.none() | st.text(min_size=1))
@example(text="\ufffe\uffff\ufffd\x00\x1f\x7f\u2028\U0001fffe", key="\uffff")
def test_any_text_passes_sqs_and_comes_out_as_it_went_in(text: str, key: str | None) -> None:
    content = body(a_message(idempotency_key=key), payload=text)
    assert SQS_TEXT.fullmatch(content)
    parsed = envelope.parse(content, fallback_id="-", sent_time=2**62)
    assert isinstance(parsed, envelope.Envelope)
    assert (parsed.payload_text, parsed.idempotency_key, parsed.message_id) == (text, key, "m1")


def test_publish_time_is_kept_to_the_microsecond() -> None:
    assert json.loads(body(a_message()))["publish_time"] == "2026-02-06T12:30:00.123456Z"


def test_without_the_attribute_there_is_no_idempotency_key() -> None:
    assert "idempotency_key" not in json.loads(body(a_message()))
    assert "idempotency_key" not in json.loads(body(a_message(idempotency_key="")))


@given(st.binary())
def test_bytes_that_are_no_text_can_be_recovered(data: bytes) -> None:
    kind, _, encoded = data_url(data).partition(",")
    assert kind == "data:application/octet-stream;base64"
    assert base64.b64decode(encoded) == data


def test_utf8_is_text_and_anything_else_is_not() -> None:
    assert a_message("Zürich ☃".encode()).text == "Zürich ☃"
    assert a_message(b"").text == ""
    assert a_message(b"\xff\xfe").text is None
    assert a_message("\ud800".encode("utf-8", "surrogatepass")).text is None


def test_an_oversize_message_ends_in_the_dead_letters_as_too_large_with_its_reference() -> None:
    content = body(a_message(), oversize={"address": "s3://ops/oversize/t/m1", "bytes": 7})
    parsed = envelope.parse(content, fallback_id="-", sent_time=2**62)
    assert isinstance(parsed, envelope.Rejection)
    assert parsed.code is envelope.Code.TOO_LARGE
    assert json.loads(content)["oversize"]["address"] == "s3://ops/oversize/t/m1"
