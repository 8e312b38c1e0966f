"""What becomes of messages in a dead-letter queue: rows with the reason, and one archive object per batch.

A redrive changes neither the SQS id nor the sent time, so the identity resolved here is the one that the
processor resolved. Where there is an envelope the identity is written into the kept body, for the replay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from lean_ops.identity import Identity
from lean_ops.ingestion import envelope
from lean_ops.ingestion.attempts import NO_TOPIC, Attempt
from lean_ops.ingestion.envelope import Code, Envelope, Rejection
from lean_ops.ingestion.intake import Delivery, prepare
from lean_ops.resources import DLQ_ARCHIVE_PREFIX


def archive_key(topic: str | None, deliveries: Sequence[Delivery]) -> str:
    """The same for the same batch, so that draining it again overwrites its object."""
    digest = hashlib.sha256("\n".join(sorted(each.sqs_id for each in deliveries)).encode()).hexdigest()
    return f"{DLQ_ARCHIVE_PREFIX}{topic or NO_TOPIC}/{digest}.jsonl"


def attempts(topic: str | None, deliveries: Sequence[Delivery], now: float) -> list[Attempt]:
    """One row per delivery; its cause is the SQS message, which a replay replaces by another."""
    key = archive_key(topic, deliveries)
    return [_attempt(topic, delivery, key, now) for delivery in deliveries]


def archive(rows: Sequence[Attempt], deliveries: Sequence[Delivery]) -> bytes:
    """JSON lines, in plain ASCII: even a body that is no legal text is kept as it came."""
    lines = (
        {
            "sqs_id": delivery.sqs_id,
            "topic_name": row.identity.topic,
            "message_id": row.identity.message_id,
            "publish_time": row.identity.publish_time,
            "sent_time": delivery.sent_time,
            "error_code": row.error_code,
            "detail": row.detail,
            "body": delivery.body,
        }
        for row, delivery in zip(rows, deliveries, strict=True)
    )
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _attempt(topic: str | None, delivery: Delivery, key: str, now: float) -> Attempt:
    prepared = prepare(topic, delivery, now)
    unforeseen = isinstance(prepared, Rejection) and prepared.code is Code.UNFORESEEN
    identity, body = _identity_and_body(topic or NO_TOPIC, delivery, readable=not unforeseen)
    if isinstance(prepared, Rejection):
        code, detail = prepared.code, prepared.detail
    else:
        code, detail = Code.RECEIVES_EXHAUSTED, "the envelope is sound: what failed was around it"
    content = {"body": body, "receive_count": delivery.receives, "archive_key": key}
    return Attempt(identity, "dlq", "open", code, detail, delivery.sqs_id, int(now * 1e6), content)


def _identity_and_body(topic: str, delivery: Delivery, *, readable: bool) -> tuple[Identity, str]:
    if readable:
        parsed = envelope.parse(delivery.body, fallback_id=delivery.sqs_id, sent_time=delivery.sent_time)
        if isinstance(parsed, Envelope):
            return Identity(topic, parsed.message_id, parsed.publish_time), parsed.resolved_body()
    # A lone surrogate cannot be stored as text; the archive has the body as it came.
    body = delivery.body.encode(errors="backslashreplace").decode()
    return Identity(topic, delivery.sqs_id, delivery.sent_time), body
