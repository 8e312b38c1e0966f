"""What makes two deliveries the same message: topic, message_id and publish_time, never the business key.

A correction shares its business key with what it corrects, so keying on that would drop corrections.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Hop = Literal["dlq", "firehose", "standardize", "curate"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """One message; `publish_time` is in microseconds since the epoch, as Iceberg stores it."""

    topic: str
    message_id: str
    publish_time: int

    @property
    def key(self) -> str:
        """One text of fixed size: a message_id may be longer than a DynamoDB key, and may be personal."""
        return hashlib.sha256(self._text(self.topic).encode()).hexdigest()

    def record_id(self, hop: Hop) -> str:
        """The name of this message in the error tables of a hop."""
        return self._text(f"{self.topic}/{hop}")

    def _text(self, opening: str) -> str:
        # The message_id comes last: it alone may contain the separator, so no two messages share a text.
        return f"{opening}/{self.publish_time}/{self.message_id}"


def to_micros(moment: datetime) -> int:
    """Exact, unlike `timestamp()`, which is a float."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(micros: int) -> datetime:
    """The inverse of `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)
