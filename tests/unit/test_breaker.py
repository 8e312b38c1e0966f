"""The circuit breaker as a pure machine: facts and a clock in, the next state out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lean_ops.ingestion.breaker import Breaker, State, after_batch, after_time, cool_down, park_delay
from lean_ops.resources import BREAKER, QUEUES

NOW = 1_000_000.0
CLOSED = Breaker("orders")


def moved(breaker: Breaker | None) -> Breaker:
    assert breaker is not None
    return breaker


def opened(trips: int = 1) -> Breaker:
    return Breaker("orders", State.OPEN, int(NOW), trips)


def half_open(ok: int = 0, err: int = 0, trips: int = 1) -> Breaker:
    return Breaker("orders", State.HALF_OPEN, int(NOW), trips, ok=ok, err=err)


@pytest.mark.parametrize(
    ("ok", "err", "opens"),
    [
        (0, BREAKER.min_count, True),
        (0, BREAKER.min_count - 1, False),
        (95, 5, False),
        (94, 6, True),
        (1_000, 0, False),
        (0, 0, False),
    ],
)
def test_a_closed_breaker_opens_above_the_rate_with_a_minimum_count(ok: int, err: int, opens: bool) -> None:
    following = after_batch(replace(CLOSED, ok=ok, err=err), NOW)
    assert (following is not None) == opens
    if following is not None:
        assert (following.state, following.polls, following.changed_at) == (State.OPEN, False, int(NOW))
        assert (following.ok, following.err) == (0, 0)


def test_an_open_breaker_waits_for_its_cool_down() -> None:
    assert after_time(opened(), NOW + BREAKER.cool_down_seconds - 1) is None
    following = moved(after_time(opened(), NOW + BREAKER.cool_down_seconds))
    assert (following.state, following.polls) == (State.HALF_OPEN, True)


@pytest.mark.parametrize("breaker", [CLOSED, half_open(), opened()])
def test_a_breaker_at_rest_stays(breaker: Breaker) -> None:
    assert after_batch(breaker, NOW) is None
    assert after_time(breaker, NOW) is None


def test_a_half_open_breaker_opens_again_at_once_and_for_longer() -> None:
    following = moved(after_batch(half_open(err=1), NOW))
    assert following.state is State.OPEN
    assert cool_down(following) == 2 * cool_down(opened())


def test_a_half_open_breaker_closes_after_enough_successes_and_forgets() -> None:
    assert after_batch(half_open(ok=BREAKER.close_after - 1), NOW) is None
    following = moved(after_batch(half_open(ok=BREAKER.close_after, trips=5), NOW))
    assert (following.state, following.trips) == (State.CLOSED, 0)


def test_the_cool_down_grows_to_a_ceiling_and_parking_stays_within_what_sqs_allows() -> None:
    waits = [cool_down(opened(trips)) for trips in range(1, 100)]
    assert waits == sorted(waits)
    assert waits[-1] == BREAKER.max_cool_down_seconds
    assert all(0 < park_delay(opened(trips)) <= QUEUES.max_delay_seconds for trips in range(100))


def test_an_outage_asks_for_one_alert_however_often_it_opens() -> None:
    first = moved(after_batch(replace(CLOSED, err=100), NOW))
    assert not first.alerted
    told = replace(first, alerted=True)
    again = moved(after_batch(replace(moved(after_time(told, NOW + 60)), err=9), NOW + 61))
    assert (again.state, again.alerted) == (State.OPEN, True)


def test_an_alert_that_nobody_sent_is_still_due_when_the_breaker_moves_on() -> None:
    first = moved(after_batch(replace(CLOSED, err=100), NOW))
    assert not moved(after_time(first, NOW + 60)).alerted


def test_the_next_outage_asks_for_an_alert_of_its_own() -> None:
    closed = moved(after_batch(half_open(ok=BREAKER.close_after), NOW))
    assert not moved(after_batch(replace(closed, err=100), NOW)).alerted
