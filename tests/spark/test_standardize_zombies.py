"""Two jobs at once: one wins, the other is refused and changes nothing, whenever it wakes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import pytest
from pyiceberg.types import StringType

from lean_ops import naming
from lean_ops.aws.leases import LeaseHeldError, LeaseLostError
from lean_ops.batch.batch_plan import BatchPlan, SourceRange
from lean_ops.batch.batch_result import BatchResult
from lean_ops.errors import RetryableError
from spark_jobs.evolution import Evolution
from spark_jobs.iceberg import PublishRefusedError
from spark_jobs.transforms.discovery import Discovered
from tests.batch_plans import plan_of
from tests.spark.faulty import (
    BriefLeases,
    Interrupted,
    Pause,
    Place,
    effects,
    everything,
    forget_everything,
    later,
)
from tests.spark.streams import Stream
from tests.spark.world import World, WorldOf, all_at_once, assert_tables, check

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

ROUNDS = 6
Outcome = Future[BatchResult | None]


def begun(world: World, seed: int) -> Stream:
    """A topic with one published batch."""
    stream = Stream(seed)
    world.append(stream.take(30))
    world.catch_up()
    return stream


class Sleeper:
    """A run in a session of its own that sleeps at a place until it is woken."""

    def __init__(self, world: World, place: Place) -> None:
        self._pause = Pause()
        self._pool = ThreadPoolExecutor(1)
        steps = Interrupted(place, self._pause)
        self.outcome: Outcome = self._pool.submit(world.run, steps, spark=world.lake.new_session())
        self._pool.shutdown(wait=False)
        while not self._pause.reached.wait(0.1):
            assert not self.outcome.done(), self.outcome.exception(0)

    def wakes(self) -> BaseException | None:
        """How it ended after all."""
        self._pause.wake()
        return self.outcome.exception(300)


def open_plan(world: World) -> BatchPlan | None:
    return world.ports().checkpoints.load(world.name, "standardize").open_plan


def test_of_two_jobs_one_wins_and_the_other_is_told_to_come_again(world_of: WorldOf) -> None:
    race(world_of(), rounds=1)


@pytest.mark.faults
def test_of_two_jobs_one_wins_every_time(world: World) -> None:
    race(world, ROUNDS)


def race(world: World, rounds: int) -> None:
    stream = begun(world, seed=21)
    sessions = [world.lake.new_session() for _ in range(2)]
    for _ in range(rounds):
        world.append(stream.take(20))
        ready = Barrier(2)

        def job(session: Any, ready: Barrier = ready) -> BatchResult | None:
            ready.wait(60)
            return world.run(spark=session)

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda session: outcome_of(job, session), sessions))
        assert sum(isinstance(outcome, BatchResult) for outcome in outcomes) == 1
        assert sum(outcome is None or isinstance(outcome, LeaseHeldError) for outcome in outcomes) == 1
        check(world)


def outcome_of(job: Callable[[Any], BatchResult | None], session: Any) -> Any:
    try:
        return job(session)
    except LeaseHeldError as refusal:
        return refusal


def test_a_zombie_whose_clock_says_that_its_lease_is_over_goes_no_further(world_of: WorldOf) -> None:
    world = world_of()
    stream = begun(world, seed=22)
    world.append(stream.take(20))
    before = everything(world)
    with pytest.raises(LeaseLostError):
        world.run(leases=BriefLeases(world.lake.dynamodb, world.lake.runtime.names))
    assert everything(world) == before
    assert open_plan(world) is None


def test_a_zombie_that_wakes_before_it_publishes_is_refused(world_of: WorldOf) -> None:
    world = world_of()
    stream = begun(world, seed=23)
    world.append(stream.take(20))
    steps = effects(world)
    wake_one_at(world, stream, Place(publishing(world, stream, steps), "before"))


@pytest.mark.faults
def test_a_zombie_that_wakes_at_any_step_after_another_did_its_batch_changes_nothing(world: World) -> None:
    """Its own clock says that the lease is still its own: only the tables and the state can refuse it."""
    stream = begun(world, seed=24)
    world.append(stream.take(20))
    refused = [wake_one_at(world, stream, Place(step, "before")) for step in range(len(effects(world)))]
    assert sum(refused) > len(refused) / 2


def wake_one_at(world: World, stream: Stream, place: Place) -> bool:
    world.append(stream.take(20))
    zombie = Sleeper(world, place)
    planned = open_plan(world) is not None
    world.run(leases=later(world))
    check(world)
    before = everything(world)
    error = zombie.wakes()
    # Without a plan it had done nothing, and may find that there is nothing to do.
    assert (
        isinstance(error, RetryableError) if planned else error is None or isinstance(error, RetryableError)
    )
    assert everything(world) == before
    assert world.run(leases=later(world)) is None
    return error is not None


@pytest.mark.faults
def test_a_zombie_with_another_range_changes_nothing(world: World) -> None:
    stream = begun(world, seed=25)
    world.append(stream.take(20))
    for step in range(len(effects(world))):
        world.append(stream.take(15))
        zombie = Sleeper(world, Place(step, "before"))
        # Nobody remembers the zombie's plan, and meanwhile there is more to read.
        forget_everything(world)
        world.append(stream.take(15))
        result = world.run()
        assert result is not None
        before = everything(world)
        error = zombie.wakes()
        assert error is None or isinstance(error, RetryableError)
        assert everything(world) == before
        assert_tables(world, all_at_once(world))
        assert world.run(leases=later(world)) is None


@pytest.mark.faults
def test_a_zombie_that_publishes_first_has_done_the_batch(world_of: WorldOf) -> None:
    world = world_of()
    stream = begun(world, seed=26)
    world.append(stream.take(20))
    steps = effects(world)
    last = publishing(world, stream, steps)
    for step in range(last + 1):
        world.append(stream.take(20))
        zombie = Sleeper(world, Place(last, "before"))
        with second_job(world, Place(step, "before")) as other:
            errors = [zombie.wakes()]
        errors.append(other.exception(0))
        assert all(error is None or isinstance(error, RetryableError) for error in errors)
        world.run(leases=later(world))
        check(world)


@contextmanager
def second_job(world: World, place: Place) -> Any:
    """A job that holds the lease after the first one lost it, and is slow at a place."""
    pause = Pause()
    with ThreadPoolExecutor(1) as pool:
        session = world.lake.new_session()
        job = pool.submit(world.run, Interrupted(place, pause), spark=session, leases=later(world))
        assert pause.reached.wait(300)
        yield job
        pause.wake()


def publishing(world: World, stream: Stream, steps: list[str]) -> int:
    """The number of the step that moves the table's head."""
    world.append(stream.take(10))
    heads: list[int | None] = []

    class Watching(Interrupted):
        def _at(self, place: Place) -> None:
            if place.when == "before":
                heads.append(world.standardized.metadata.current_snapshot_id)

    assert world.run(Watching()) is not None
    assert len(heads) == len(steps)
    return next(number for number, head in enumerate(heads) if head != heads[0]) - 1


def test_whoever_moves_main_meanwhile_makes_the_batch_start_over(world: World) -> None:
    stream = begun(world, seed=27)
    world.append(stream.take(20))
    steps = effects(world)
    last = publishing(world, stream, steps)
    world.append(stream.take(20))
    batch = Sleeper(world, Place(last, "before"))
    table = world.standardized
    table.append(table.schema().as_arrow().empty_table())
    assert isinstance(batch.wakes(), PublishRefusedError)
    world.catch_up()
    check(world)


def test_a_column_that_somebody_else_named_meanwhile_is_never_given_a_second_path(world_of: WorldOf) -> None:
    world = world_of()
    plan = plan_of(SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"), topic=world.name)
    evolution = Evolution.of(world.lake.catalog, plan, None)
    with world.lake.catalog.load_table(naming.standardized_table(world.name)).update_schema() as update:
        update.add_column("x_y", StringType(), doc="x.y")
    with pytest.raises(RetryableError, match="columns"):
        evolution.evolved(world.lake.catalog, Discovered({"x_y": frozenset({"string"})}))
    assert {field.doc for field in world.standardized.schema().fields if field.name == "x_y"} == {"x.y"}
