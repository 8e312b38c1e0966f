"""The envelope of an SQS message: `{message_id, publish_time, idempotency_key?, payload}`.

The payload's text is taken out as it stands in the source, byte for byte: it is never parsed and written
again, so `1.10` stays `1.10`. A payload that is not JSON arrives as a JSON string and is none of the
envelope's business. Whatever the envelope lacks is resolved from SQS's own id and sent time, which survive
redelivery and redrive; before a message is sent anew the resolved values are written into its body.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

import msgspec

from lean_ops.identity import to_datetime, to_micros

EARLIEST = to_micros(datetime(2000, 1, 1, tzinfo=UTC))
BEYOND = to_micros(datetime(2200, 1, 1, tzinfo=UTC))
DAY = 24 * 3600 * 1_000_000

_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Code(StrEnum):
    """Why a message could not be taken: stable words, made to be aggregated."""

    EMPTY_BODY = "EMPTY_BODY"
    NOT_UTF8 = "NOT_UTF8"
    NOT_JSON = "NOT_JSON"
    WRONG_SHAPE = "WRONG_SHAPE"
    TOO_LARGE = "TOO_LARGE"
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
    RECEIVES_EXHAUSTED = "RECEIVES_EXHAUSTED"
    UNFORESEEN = "UNFORESEEN"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A fault of the message itself: it would fail the same way at every attempt. `detail` quotes no data."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message whose identity is settled."""

    message_id: str
    publish_time: int
    idempotency_key: str | None
    payload_text: str
    retimed: bool = field(default=False, compare=False)
    source: Mapping[str, msgspec.Raw] = field(default_factory=dict, compare=False, repr=False)

    def resolved_body(self) -> str:
        """The body with the settled identity in it; the payload and unknown keys stay as they were."""
        settled = {"message_id": self.message_id, "publish_time": rfc3339(self.publish_time)}
        # Plain ASCII, because SQS refuses some characters that a JSON escape may have brought in.
        return msgspec.json.encode(
            {**self.source, **{key: msgspec.Raw(json.dumps(value)) for key, value in settled.items()}}
        ).decode()


def parse(body: str, *, fallback_id: str, sent_time: int) -> Envelope | Rejection:
    """The envelope of a body, or why it has none. Never raises, whatever the body."""
    try:
        encoded = body.encode()
    except UnicodeEncodeError as error:
        return Rejection(Code.NOT_UTF8, f"a lone surrogate at character {error.start}")
    if not encoded.strip():
        return Rejection(Code.EMPTY_BODY, "nothing but white space")
    try:
        source = _fields_of.decode(encoded)
    except msgspec.ValidationError as error:
        return Rejection(Code.WRONG_SHAPE, str(error))
    except (msgspec.DecodeError, RecursionError) as error:
        return Rejection(Code.NOT_JSON, str(error))
    return _envelope(source, fallback_id, sent_time)


def _envelope(source: Mapping[str, msgspec.Raw], fallback_id: str, sent_time: int) -> Envelope | Rejection:
    if "oversize" in source and "payload" not in source:
        return Rejection(Code.TOO_LARGE, "the payload is in the operations bucket: `oversize` says where")
    try:
        message_id = _text(source, "message_id")
        idempotency_key = _text(source, "idempotency_key")
        payload = _payload_text(source)
    except msgspec.ValidationError as error:
        return Rejection(Code.WRONG_SHAPE, str(error))
    stated = _instant(source["publish_time"]) if "publish_time" in source else None
    credible = stated is not None and EARLIEST <= stated <= sent_time + DAY
    return Envelope(
        message_id or fallback_id,
        stated if stated is not None and credible else sent_time,
        idempotency_key or None,
        payload,
        retimed=not credible,
        source=source,
    )


def _text(source: Mapping[str, msgspec.Raw], key: str) -> str | None:
    if key not in source:
        return None
    try:
        return msgspec.json.decode(source[key], type=str | None)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{key}: {error}") from error


def _payload_text(source: Mapping[str, msgspec.Raw]) -> str:
    raw = bytes(source["payload"]) if "payload" in source else b""
    if raw.startswith(b"{"):
        return raw.decode()
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    raise msgspec.ValidationError("payload: expected an object or a string")


def _instant(raw: msgspec.Raw) -> int | None:
    """Microseconds since the epoch: RFC 3339 text (without an offset: UTC), or a number in s, ms or µs."""
    text = bytes(raw).decode()
    if text.startswith('"'):
        return _instant_of_text(msgspec.json.decode(raw, type=str))
    if not text.startswith(tuple("0123456789")):
        return None
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None  # an exponent beyond Decimal's own is legal JSON too
    if number >= BEYOND:
        return None  # before any arithmetic: 1E400000000 is legal JSON
    for micros in (1_000_000, 1_000, 1):
        if EARLIEST <= number * micros < BEYOND:
            return int(number * micros)
    return None


def _instant_of_text(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return to_micros(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def rfc3339(micros: int) -> str:
    """A point in time as text, to the microsecond."""
    return to_datetime(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
