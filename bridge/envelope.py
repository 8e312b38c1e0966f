"""A Pub/Sub message, and the SQS body it becomes."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime

from lean_ops.identity import to_micros
from lean_ops.ingestion.envelope import rfc3339

# Legal in JSON and in UTF-8, but SQS refuses a body that holds them: they travel escaped.
_NEVER_IN_A_BODY = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}


@dataclass(frozen=True)
class Message:
    """One delivery of a message. The receipt acknowledges this delivery and no other."""

    receipt: str
    message_id: str
    publish_time: datetime
    data: bytes
    ordering_key: str = ""
    idempotency_key: str | None = None

    @property
    def text(self) -> str | None:
        """The data as text, or None when it is not UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


def body(message: Message, **content: object) -> str:
    """The envelope around a payload, or around what stands in for one."""
    identity = {
        "message_id": message.message_id,
        "publish_time": rfc3339(to_micros(message.publish_time)),
    }
    key = {"idempotency_key": message.idempotency_key} if message.idempotency_key else {}
    return json.dumps({**identity, **key, **content}, ensure_ascii=False).translate(_NEVER_IN_A_BODY)


def data_url(data: bytes) -> str:
    """Bytes that are no text, as text that says so."""
    return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"
