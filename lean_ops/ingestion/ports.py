"""What ingestion asks of the world outside its process. `lean_ops/aws/` answers; a failure of theirs that may
pass is a RetryableError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lean_ops.ingestion.breaker import Breaker


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is remembered of a delivered message: the SQS message that brought it, a digest of its payload."""

    sqs_id: str
    payload: str


@dataclass(frozen=True)
class Tally:
    """What became of a batch, in messages.

    Parts of `suppressed`: `conflicting` had another payload, `repeated` came by a later receive and may have
    been counted before. Parts of `accepted`: `retimed` and `unremembered`. `uncounted` were taken for good but
    may be missing in the books, which did not answer.
    """

    accepted: int = 0
    suppressed: int = 0
    conflicting: int = 0
    repeated: int = 0
    redelivered: int = 0
    rejected: int = 0
    refused: int = 0
    parked: int = 0
    retimed: int = 0
    unremembered: int = 0
    uncounted: int = 0

    @property
    def received(self) -> int:
        """What was taken for good."""
        return self.accepted + self.suppressed


class Memory(Protocol):
    """Remembers delivered messages for 24 hours."""

    def recall(self, keys: Sequence[str], now: float) -> Mapping[str, Receipt]: ...
    def remember(self, receipts: Mapping[str, Receipt], now: float) -> None: ...


class Stream(Protocol):
    """Takes records; returns the index and the error code of each that it did not acknowledge."""

    def put(self, records: Sequence[bytes]) -> Mapping[int, str]: ...


class Queue(Protocol):
    """Sends bodies to a topic's queue; returns the index and the error code of each that it did not take."""

    def send(self, topic: str, bodies: Sequence[str], *, delay_seconds: int = 0) -> Mapping[int, str]: ...


class Books(Protocol):
    """Every topic's breaker and lifetime counts, one item each."""

    def read(self, topic: str) -> Breaker: ...
    def all(self) -> Sequence[Breaker]: ...
    def count(self, topic: str, tally: Tally, now: float) -> Breaker: ...
    def move(self, current: Breaker, following: Breaker) -> bool: ...
    def mark_alerted(self, breaker: Breaker) -> None: ...


class Pollers(Protocol):
    """The polling of the topics' queues."""

    def polled(self) -> Mapping[str, bool]: ...
    def set_polling(self, topic: str, *, enabled: bool) -> None: ...


class Alerts(Protocol):
    """Tells people."""

    def publish(self, subject: str, text: str) -> None: ...
