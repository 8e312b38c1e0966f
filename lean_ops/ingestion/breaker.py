"""A circuit breaker per topic that loses nothing: it stops the topic's polling instead of failing messages.

Only failures of dependencies count (Firehose or DynamoDB did not answer as they should). A broken envelope
fails the same way at every attempt: waiting would not mend it, so it goes to the dead-letter queue, and one
careless producer cannot stop the good messages of its topic.

CLOSED     counts a window; above the error rate (with a minimum count) it opens.
OPEN       the event source mapping is disabled; what still arrives is parked; a cool-down runs, doubled by
           every further opening.
HALF_OPEN  the mapping is enabled; failures are parked; above the error rate it opens again, after enough
           successes it closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lean_ops.resources import BREAKER, QUEUES, BreakerSettings


class State(StrEnum):
    """Where a topic's breaker stands."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True)
class Breaker:
    """A topic's breaker; times are epoch seconds. A topic without failures may have none stored at all."""

    topic: str
    state: State = State.CLOSED
    changed_at: int = 0
    trips: int = 0
    window: int = 0
    ok: int = 0
    err: int = 0
    alerted: bool = True

    @property
    def polls(self) -> bool:
        """Whether the topic's event source mapping should be enabled."""
        return self.state is not State.OPEN


def window_of(now: float, settings: BreakerSettings = BREAKER) -> int:
    """The start of the counting window that `now` lies in."""
    return int(now) - int(now) % settings.window_seconds


def cool_down(breaker: Breaker, settings: BreakerSettings = BREAKER) -> int:
    """How long an opening lasts, in seconds: twice as long each time, up to a ceiling."""
    return min(
        settings.cool_down_seconds << min(max(breaker.trips - 1, 0), 16), settings.max_cool_down_seconds
    )


def park_delay(breaker: Breaker, settings: BreakerSettings = BREAKER) -> int:
    """How long a parked message stays invisible: past the cool-down, as far as SQS allows."""
    return min(cool_down(breaker, settings), QUEUES.max_delay_seconds)


def after_batch(breaker: Breaker, now: float, settings: BreakerSettings = BREAKER) -> Breaker | None:
    """The breaker's next state once a batch has been counted into it, or None when it stays."""
    seen = breaker.ok + breaker.err
    failing = breaker.err > settings.error_rate * seen
    if breaker.state is State.CLOSED and failing and seen >= settings.min_count:
        return _entered(breaker, State.OPEN, now, trips=1)
    if breaker.state is State.HALF_OPEN and failing:
        return _entered(breaker, State.OPEN, now, trips=breaker.trips + 1)
    if breaker.state is State.HALF_OPEN and breaker.ok >= settings.close_after:
        return _entered(breaker, State.CLOSED, now, trips=0)
    return None


def after_time(breaker: Breaker, now: float, settings: BreakerSettings = BREAKER) -> Breaker | None:
    """The breaker's next state by the passing of time alone, or None when it stays."""
    if breaker.state is State.OPEN and now >= breaker.changed_at + cool_down(breaker, settings):
        return _entered(breaker, State.HALF_OPEN, now, trips=breaker.trips)
    return None


def _entered(breaker: Breaker, state: State, now: float, trips: int) -> Breaker:
    # One alert per outage: leaving CLOSED asks for one, opening again out of HALF_OPEN does not.
    alerted = breaker.alerted and breaker.state is not State.CLOSED
    return Breaker(breaker.topic, state, int(now), trips, window_of(now), alerted=alerted)
