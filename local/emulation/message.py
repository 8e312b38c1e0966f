"""One message of the traffic together with its truth: what was sent, and what must become of it in every layer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Violation(msgspec.Struct, frozen=True):
    """The first rule of the contract that a record breaks."""

    code: str
    column: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message, however often it was sent. Times are microseconds since the epoch; values are texts.

    `dead_letter` and `parse_error` hold a code when the message must end there. `violation` makes it an open
    error of Curated; otherwise it is a valid version of its key with these `values` (None: NULL). `drifted` are
    the columns of Standardized that no contract knows, `flipped` those that hold text where a number was.
    """

    topic: str
    message_id: str
    publish_time: int
    payload: str
    trouble: str = ""
    key: str = ""
    period: str = ""
    again: int = 0
    forgotten: int = 0
    dead_letter: str = ""
    parse_error: str = ""
    violation: Violation | None = None
    values: dict[str, str | None] = {}
    drifted: dict[str, str] = {}
    flipped: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, int]:
        return self.message_id, self.publish_time

    @property
    def version(self) -> tuple[int, str]:
        """What orders the versions of a key."""
        return self.publish_time, self.message_id

    @property
    def body(self) -> str:
        """What the queue is given."""
        if self.dead_letter:
            return self.payload
        # As an object where it is one; text that is none travels as a JSON string, as from the source.
        payload = json.dumps(self.payload) if self.parse_error else self.payload
        return (
            f'{{"message_id":{json.dumps(self.message_id)},"publish_time":"{iso(self.publish_time)}",'
            f'"payload":{payload}}}'
        )


def micros(moment: datetime) -> int:
    """Microseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def iso(instant: int) -> str:
    """A point in time as the sources write it."""
    return (
        (_EPOCH + timedelta(microseconds=instant)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )
