"""Rows of the error tables: one row is one attempt at one record, a later row answers an earlier one.

A record is open until a row says that it is resolved: its message is in RAW, or a person gave it up. What a row
was written for is its `batch_id`, which is deterministic (the SQS message that ended in the dead-letter queue, the
error object, the attempt that a replay answers): the same cause adds no second row, whoever repeats it and whenever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lean_ops.identity import Hop, Identity

Status = Literal["open", "replayed", "resolved"]

# The partition of what names no topic; no topic can have this name.
NO_TOPIC = "(none)"

# What the causes of rows begin with by which a person gave a record up; a cause of ours is an id or a key.
_CLOSED = "closed-"

# A replay may need all receives of its queue and a full Firehose buffer before it shows in RAW.
IN_FLIGHT_MICROS = 3600 * 1_000_000


@dataclass(frozen=True)
class Attempt:
    """A row to append; its number is given when it is, after all earlier ones of its record."""

    identity: Identity
    hop: Hop
    status: Status
    error_code: str
    detail: str
    batch_id: str
    detected_at: int
    content: Mapping[str, object] = field(default_factory=dict)

    @property
    def record_id(self) -> str:
        return self.identity.record_id(self.hop)


@dataclass(frozen=True)
class Standing:
    """The latest attempt of a record."""

    identity: Identity
    hop: Hop
    attempt: int
    status: Status
    error_code: str
    detected_at: int
    batch_id: str = ""

    @property
    def record_id(self) -> str:
        return self.identity.record_id(self.hop)

    @property
    def closed(self) -> bool:
        """Whether a person gave it up. Its message may have reached RAW all the same."""
        return self.batch_id.startswith(_CLOSED)

    def closing(self, now: int, reason: str) -> Attempt:
        """The row by which a person gives this record up, at most once for each attempt."""
        batch_id = f"{_CLOSED}{self.attempt}"
        return Attempt(self.identity, self.hop, "resolved", self.error_code, reason, batch_id, now)

    def answered(self, status: Status, now: int, detail: str) -> Attempt:
        """The row that answers this attempt, at most once for each status."""
        return Attempt(
            self.identity, self.hop, status, self.error_code, detail, f"{status}-{self.attempt}", now
        )


@dataclass(frozen=True)
class ReplayPlan:
    """Which records to send again, and how many there are of each code; `in_flight` are left alone."""

    send: tuple[Standing, ...]
    in_flight: int

    @property
    def counts(self) -> dict[str, int]:
        return dict(sorted(Counter(each.error_code for each in self.send).items()))


def plan_replay(
    standings: Iterable[Standing], now: int, *, since: int | None = None, code: str | None = None
) -> ReplayPlan:
    """The open records of a code, detected since a time. What was replayed just now is still on its way."""
    asked = [
        each
        for each in standings
        if each.status != "resolved"
        and (code is None or each.error_code == code)
        and (since is None or each.detected_at >= since)
    ]
    send = tuple(
        each for each in asked if each.status != "replayed" or now - each.detected_at >= IN_FLIGHT_MICROS
    )
    return ReplayPlan(send, len(asked) - len(send))


def numbered(
    attempts: Sequence[Attempt], known: Mapping[str, Mapping[str, int]]
) -> list[tuple[int, Attempt]]:
    """The attempts whose cause is new, each with the number that follows its record's last one.

    `known` holds what the table has: record_id → batch_id → attempt.
    """
    causes = {record_id: dict(batches) for record_id, batches in known.items()}
    fresh: list[tuple[int, Attempt]] = []
    for attempt in attempts:
        seen = causes.setdefault(attempt.record_id, {})
        if attempt.batch_id not in seen:
            number = 1 + max(seen.values(), default=0)
            seen[attempt.batch_id] = number
            fresh.append((number, attempt))
    return fresh
