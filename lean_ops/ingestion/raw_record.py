"""One record on its way through Firehose: a JSON object with exactly the RAW columns.

Firehose matches names and types exactly; a timestamp travels as integer microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from lean_ops.identity import Identity
from lean_ops.ingestion.envelope import BEYOND, EARLIEST, Code, Envelope, Rejection
from lean_ops.naming import topic_name_fault
from lean_ops.resources import DELIVERY


class RawRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `{topic}_staging`."""

    message_id: str
    topic_name: str
    # What the processor can have written: any other number might be no point in time at all.
    publish_time: Annotated[int, msgspec.Meta(ge=EARLIEST, lt=BEYOND)]
    ingestion_ts: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    idempotency_key: str | None
    json_payload: str

    @property
    def identity(self) -> Identity:
        return Identity(self.topic_name, self.message_id, self.publish_time)


_decoder = msgspec.json.Decoder(RawRecord)
_encoder = msgspec.json.Encoder()


def encode(topic: str, envelope: Envelope, ingestion_ts: int) -> bytes | Rejection:
    """The record of a message, or a rejection when Firehose would refuse its size."""
    encoded = _encoder.encode(
        RawRecord(
            envelope.message_id,
            topic,
            envelope.publish_time,
            ingestion_ts,
            envelope.idempotency_key,
            envelope.payload_text,
        )
    )
    # The payload travels as a JSON string, so every quote in it costs a byte more than it did in SQS.
    if len(encoded) > DELIVERY.max_record_bytes:
        return Rejection(Code.TOO_LARGE, f"{len(encoded)} bytes, Firehose takes {DELIVERY.max_record_bytes}")
    return encoded


def decode(data: bytes | str) -> RawRecord | None:
    """The record that these bytes are, or None when they are none (or belong to no legal topic)."""
    try:
        return _of_legal_topic(_decoder.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def of_row(row: Mapping[str, object]) -> RawRecord | None:
    """The record that a row of a data file is, its times as integers, or None when it is none."""
    try:
        return _of_legal_topic(msgspec.convert(row, RawRecord))
    except msgspec.ValidationError:
        return None


def _of_legal_topic(record: RawRecord) -> RawRecord | None:
    return record if topic_name_fault(record.topic_name) is None else None


def text(record: RawRecord) -> str:
    """A record as it travels, as text."""
    return _encoder.encode(record).decode()
