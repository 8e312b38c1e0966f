"""At most one holder, a fence that only grows, and a holder that notices when it has lost the lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lean_ops.aws.leases import Claim, Lease, LeaseHeldError, LeaseLostError, Leases
from lean_ops.naming import Names

NOW = 1_790_000_000_000
PATIENCE_SECONDS = 20


@pytest.fixture
def leases(dynamodb: Any, names: Names) -> Leases:
    return Leases(dynamodb, names)


class ManualClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        threading.Event().wait(0.005)


def test_a_free_lease_is_granted_with_the_first_fence(leases: Leases) -> None:
    assert leases.acquire("orders", "run-1", 60, NOW) == Claim("orders", "run-1", 1, NOW + 60_000)


def test_a_held_lease_is_refused_and_the_refusal_names_holder_and_expiry(leases: Leases) -> None:
    leases.acquire("orders", "run-1", 60, NOW)
    with pytest.raises(LeaseHeldError, match=r"orders is held by run-1 until 2026-09-21T14:14:20Z") as caught:
        leases.acquire("orders", "run-2", 60, NOW + 59_999)
    assert caught.value.facts == {"lease": "orders", "holder": "run-1", "expires_at": NOW + 60_000}


def test_even_its_holder_cannot_take_a_held_lease_again(leases: Leases) -> None:
    leases.acquire("orders", "run-1", 60, NOW)
    with pytest.raises(LeaseHeldError):
        leases.acquire("orders", "run-1", 60, NOW + 1)


def test_an_acquisition_whose_answer_got_lost_may_be_repeated(leases: Leases) -> None:
    first = leases.acquire("orders", "run-1", 60, NOW)
    assert leases.acquire("orders", "run-1", 60, NOW) == first


def test_an_expired_lease_goes_to_the_next_with_a_greater_fence(leases: Leases) -> None:
    leases.acquire("orders", "run-1", 60, NOW)
    assert leases.acquire("orders", "run-2", 60, NOW + 60_000).fence == 2


def test_the_fence_survives_release(leases: Leases) -> None:
    for round_number in range(1, 4):
        claim = leases.acquire("orders", f"run-{round_number}", 60, NOW)
        assert claim.fence == round_number
        leases.release(claim)


def test_leases_of_different_names_do_not_meet(leases: Leases) -> None:
    leases.acquire("orders", "run-1", 60, NOW)
    assert leases.acquire("ops#flush", "run-2", 60, NOW).fence == 1


def test_a_renewed_lease_is_held_longer(leases: Leases) -> None:
    claim = leases.renew(leases.acquire("orders", "run-1", 60, NOW), 60, NOW + 30_000)
    assert claim.expires_at == NOW + 90_000
    with pytest.raises(LeaseHeldError):
        leases.acquire("orders", "run-2", 60, NOW + 89_999)


@pytest.mark.parametrize("successor", ["run-2", "run-1"], ids=["another owner", "the same owner, a new run"])
def test_who_was_replaced_can_neither_renew_nor_release(leases: Leases, successor: str) -> None:
    old = leases.acquire("orders", "run-1", 60, NOW)
    new = leases.acquire("orders", successor, 60, NOW + 60_000)
    with pytest.raises(LeaseLostError):
        leases.renew(old, 60, NOW + 60_001)
    with pytest.raises(LeaseLostError):
        leases.release(old)
    assert leases.renew(new, 60, NOW + 60_002).fence == new.fence


@pytest.mark.parametrize("start", ["free", "released", "expired"])
def test_of_racing_acquirers_exactly_one_wins(leases: Leases, start: str) -> None:
    runners = 8
    for race in range(10):
        name, now = f"{start}-{race}", NOW
        if start != "free":
            earlier = leases.acquire(name, "earlier", 60, NOW)
            if start == "released":
                leases.release(earlier)
            now = NOW + 60_000
        line = threading.Barrier(runners)

        def run(runner: int, name: str = name, now: int = now, line: threading.Barrier = line) -> int | None:
            line.wait(PATIENCE_SECONDS)
            try:
                return leases.acquire(name, f"runner-{runner}", 60, now).fence
            except LeaseHeldError:
                return None

        with ThreadPoolExecutor(runners) as pool:
            fences = [fence for fence in pool.map(run, range(runners)) if fence is not None]
        assert fences == [1 if start == "free" else 2]


def test_work_that_outlasts_the_lease_keeps_it(leases: Leases) -> None:
    with Lease(leases, "orders", "run-1", seconds=0.4) as lease:
        granted = lease.claim.expires_at
        until(lambda: lease.claim.expires_at > granted + 800)
        lease.check()
        with pytest.raises(LeaseHeldError):
            leases.acquire("orders", "run-2", 60, granted + 1)


def test_the_lease_is_free_and_nothing_renews_it_after_the_block(leases: Leases) -> None:
    with Lease(leases, "orders", "run-1", clock=ManualClock()):
        assert [t.daemon for t in threading.enumerate() if t.name == "lease of orders"] == [True]
    assert not [t for t in threading.enumerate() if t.name == "lease of orders"]
    assert leases.acquire("orders", "run-2", 60, NOW).fence == 2


def test_the_lease_is_free_after_the_block_has_failed(leases: Leases) -> None:
    with pytest.raises(ZeroDivisionError), Lease(leases, "orders", "run-1", clock=ManualClock()):
        raise ZeroDivisionError
    assert leases.acquire("orders", "run-2", 60, NOW).fence == 2


def test_a_zombie_that_wakes_after_expiry_is_told_by_its_own_clock(leases: Leases) -> None:
    clock = ManualClock()
    with Lease(leases, "orders", "run-1", clock=clock) as lease:
        lease.check()
        clock.now = lease.claim.expires_at
        with pytest.raises(LeaseLostError, match="run-1 held it with fence 1"):
            lease.check()


def test_a_holder_whose_lease_was_taken_is_told_before_its_own_clock_says_so(leases: Leases) -> None:
    clock = ManualClock()
    with Lease(leases, "orders", "run-1", seconds=0.2, clock=clock) as lease:
        successor = leases.acquire("orders", "run-2", 60, NOW + 200)
        until(lambda: _is_lost(lease))
    # Leaving the block released nothing of the successor's.
    assert leases.renew(successor, 60, NOW + 300).fence == 2


@pytest.fixture
def unreachable(dynamodb: Any) -> Iterator[Callable[[], int]]:
    """DynamoDB stops answering to updates; the call tells how many were tried."""
    calls = []

    def fail(**_: Any) -> None:
        calls.append(1)
        raise dynamodb.exceptions.ProvisionedThroughputExceededException(
            {"Error": {"Code": "ProvisionedThroughputExceededException"}}, "UpdateItem"
        )

    def stop_answering() -> int:
        dynamodb.meta.events.register("before-call.dynamodb.UpdateItem", fail, unique_id="outage")
        return len(calls)

    yield stop_answering
    dynamodb.meta.events.unregister("before-call.dynamodb.UpdateItem", unique_id="outage")


def test_renewals_that_fail_are_tried_again_and_the_lease_is_lost_only_at_its_expiry(
    leases: Leases, unreachable: Callable[[], int]
) -> None:
    clock = ManualClock()
    with Lease(leases, "orders", "run-1", seconds=0.1, clock=clock) as lease:
        unreachable()
        until(lambda: unreachable() >= 3)
        lease.check()
        clock.now = NOW + 100
        with pytest.raises(LeaseLostError):
            lease.check()


def _is_lost(lease: Lease) -> bool:
    try:
        lease.check()
    except LeaseLostError:
        return True
    return False
