"""Which message may be sent next, and with which others in one call."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bridge.envelope import Message
from lean_ops.ingestion.chunks import by_size
from lean_ops.resources import QUEUES

CALL_ENTRIES = 10
CALL_BYTES = QUEUES.max_message_bytes

Lane = list[Message]


@dataclass(frozen=True)
class Parcel:
    """A message with its SQS body."""

    message: Message
    body: str
    size: int


def by_key(messages: Iterable[Message]) -> list[Lane]:
    """The messages of each ordering key, in the order pulled; a message without key stands alone."""
    lanes: dict[tuple[str, str], Lane] = {}
    for message in messages:
        lane = (message.ordering_key, "" if message.ordering_key else message.receipt)
        lanes.setdefault(lane, []).append(message)
    return list(lanes.values())


def heads(lanes: Iterable[Lane]) -> list[Message]:
    """What may be sent now: no two of one key, so that no message is confirmed before its predecessor."""
    return [lane[0] for lane in lanes]


def advanced(lanes: Iterable[Lane], confirmed: Collection[str]) -> list[Lane]:
    """The lanes after a send. One whose head was not confirmed is gone: nothing may overtake that message."""
    return [lane[1:] for lane in lanes if lane[0].receipt in confirmed and len(lane) > 1]


def calls(parcels: Sequence[Parcel]) -> Iterator[list[Parcel]]:
    """The parcels packed into SendMessageBatch calls."""
    return by_size(parcels, lambda parcel: parcel.size, most=CALL_ENTRIES, most_bytes=CALL_BYTES)
