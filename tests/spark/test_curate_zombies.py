"""Two jobs of the second hop at once: one wins, the other is refused and changes nothing, whenever it wakes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from lean_ops.aws.leases import LeaseHeldError
from lean_ops.batch.batch_result import BatchResult
from lean_ops.errors import RetryableError
from tests.spark.curated_streams import Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check, everything
from tests.spark.faulty import Interrupted, Pause, Place, effects, forget_everything, later

pytestmark = [pytest.mark.spark, pytest.mark.faults, pytest.mark.timeout(7200)]

ROUNDS = 4


class Sleeper:
    """A run in a session of its own that sleeps at a place until it is woken."""

    def __init__(self, world: CuratedWorld, place: Place, work: Any = None) -> None:
        self._pause = Pause()
        pool = ThreadPoolExecutor(1)
        steps = Interrupted(place, self._pause)
        self.outcome = pool.submit(world.run, steps, spark=world.lake.new_session(), work=work)
        pool.shutdown(wait=False)
        while not self._pause.reached.wait(0.1):
            assert not self.outcome.done(), self.outcome.exception(0)

    def wakes(self) -> BaseException | None:
        """How it ended after all."""
        self._pause.wake()
        return self.outcome.exception(600)


def begun(world: CuratedWorld, seed: int) -> tuple[Supply, list[str]]:
    supply = Supply(seed)
    world.append(supply.take(30))
    world.catch_up()
    world.append(supply.take(20))
    return supply, effects(world)


def go_on(world: CuratedWorld) -> None:
    """Another job does what is to be done, when the sleeper's lease is over."""
    while world.run(leases=later(world)) is not None:
        pass
    world.oracle.take(world.given, world.contract)


def test_of_two_jobs_one_wins_every_time(curated_world: CuratedWorld) -> None:
    world = curated_world
    supply, _ = begun(world, seed=31)
    sessions = [world.lake.new_session() for _ in range(2)]
    for _ in range(ROUNDS):
        world.append(supply.take(20))
        ready = Barrier(2)

        def job(session: Any, ready: Barrier = ready) -> Any:
            ready.wait(60)
            try:
                return world.run(spark=session)
            except LeaseHeldError as refusal:
                return refusal

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(job, sessions))
        assert sum(isinstance(outcome, BatchResult) for outcome in outcomes) == 1
        assert sum(outcome is None or isinstance(outcome, LeaseHeldError) for outcome in outcomes) == 1
        world.catch_up()
        check(world)


@pytest.mark.parametrize("name", ["write_errors", "write_rows", "publish"])
def test_a_zombie_that_wakes_before_it_writes_is_refused(curated_world_of: CuratedWorldOf, name: str) -> None:
    world = curated_world_of()
    supply, steps = begun(world, seed=35)
    assert wake_one_at(world, supply, steps, steps.index(name))


def test_a_zombie_that_wakes_at_any_step_after_another_did_its_batch_changes_nothing(
    curated_world: CuratedWorld,
) -> None:
    supply, steps = begun(curated_world, seed=32)
    refused = [wake_one_at(curated_world, supply, steps, step) for step in range(len(steps))]
    assert sum(refused) > len(steps) / 2


def wake_one_at(world: CuratedWorld, supply: Supply, steps: list[str], step: int) -> bool:
    """Its own clock says that the lease is still its own: only the tables and the state can refuse it."""
    world.append(supply.take(15))
    zombie = Sleeper(world, Place(step, "before"))
    go_on(world)
    check(world)
    before = everything(world)
    error = zombie.wakes()
    assert error is None or isinstance(error, RetryableError), steps[step]
    assert everything(world) == before, steps[step]
    return error is not None


def test_a_zombie_with_another_range_changes_nothing(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    supply, steps = begun(world, seed=33)
    for step in range(len(steps)):
        world.append(supply.take(10))
        zombie = Sleeper(world, Place(step, "before"))
        # Nobody remembers the zombie's plan, and meanwhile there is more to read.
        forget_everything(world)
        world.append(supply.take(10))
        go_on(world)
        check(world)
        before = everything(world)
        error = zombie.wakes()
        assert error is None or isinstance(error, RetryableError), steps[step]
        assert {**everything(world), "history": ()} == {**before, "history": ()}, steps[step]


def test_a_replay_that_wakes_after_the_hop_moved_on_is_done_again(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    supply, _ = begun(world, seed=34)
    world.deploy("1.2")
    steps = Interrupted()
    assert world.run(steps, work=world.replaying()) is not None
    world.oracle.take(world.given, world.contract)
    world.oracle.replay(world.contract)
    for step in range(len(steps.names)):
        world.deploy("1.0")
        world.append(supply.take(25))
        world.catch_up()
        world.deploy("1.2")
        zombie = Sleeper(world, Place(step, "before"), world.replaying())
        world.append(supply.take(5))
        go_on(world)
        error = zombie.wakes()
        assert error is None or isinstance(error, RetryableError), steps.names[step]
        world.replay()
        check(world, attempts=False)
