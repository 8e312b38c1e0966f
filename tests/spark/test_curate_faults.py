"""Whatever fails or is killed, wherever it happens: the next run ends in the oracle's rows and errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from lean_ops.aws import clients
from tests.repositories import ROOT
from tests.spark.curated_streams import Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check
from tests.spark.faulty import Injected, Interrupted, Place, effects, later, places
from tests.spark.world import Lake

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

KILLS = 10


def with_history(world: CuratedWorld, seed: int) -> tuple[Supply, list[str]]:
    """A first read is done; the steps are those of a batch with errors, corrections and new keys."""
    supply = Supply(seed)
    world.append(supply.take(40))
    world.catch_up()
    world.append(supply.take(30))
    return supply, effects(world)


def fail_everywhere(world: CuratedWorld, supply: Supply, where: Sequence[Place]) -> None:
    for place in where:
        world.append(supply.take(15))
        with pytest.raises(Injected):
            world.run(Interrupted(place))
        world.catch_up()
        check(world)


def fail_replays_everywhere(world: CuratedWorld, supply: Supply, where: Sequence[Place]) -> None:
    """Between the fault and the next replay the hop itself goes on."""
    for place in where:
        with pytest.raises(Injected):
            world.run(Interrupted(place), work=world.replaying())
        world.append(supply.take(5))
        world.catch_up()
        world.replay()
        check(world, attempts=False)


def replay_effects(world: CuratedWorld) -> list[str]:
    steps = Interrupted()
    assert world.run(steps, work=world.replaying()) is not None, "a clean replay of nothing"
    return steps.names


def test_a_fault_at_some_places_loses_and_doubles_nothing(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    supply, steps = with_history(world, seed=21)
    assert {"write_errors", "merge", "write_rows", "publish", "settle"} <= set(steps)
    fail_everywhere(world, supply, [Place(steps.index("publish"), "after")])


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "on_executors"), [("sqlite", False), ("sqlite", True), ("glue", False)])
def test_a_fault_before_or_after_any_step_loses_and_doubles_nothing(
    lakes: Callable[[str], Lake], curated_world_of: CuratedWorldOf, kind: str, on_executors: bool
) -> None:
    world = curated_world_of(lakes(kind), on_executors=on_executors)
    supply, steps = with_history(world, seed=22)
    fail_everywhere(world, supply, places(steps))


@pytest.mark.faults
def test_a_fault_at_any_place_of_the_first_read(curated_world_of: CuratedWorldOf) -> None:
    template = curated_world_of()
    template.append(Supply(23).take(30))
    for place in places(effects(template)):
        fail_everywhere(curated_world_of(), Supply(23), [place])


@pytest.mark.faults
def test_a_fault_at_any_place_of_a_replay_that_heals_some(curated_world: CuratedWorld) -> None:
    supply, _ = with_history(curated_world, seed=24)
    steps = replay_effects(curated_world)
    curated_world.oracle.take(curated_world.given, curated_world.contract)
    curated_world.oracle.replay(curated_world.contract)
    for version in ("1.1", "1.2"):
        curated_world.deploy(version)
        fail_replays_everywhere(curated_world, supply, places(steps)[version == "1.2" :: 2])


@pytest.mark.faults
def test_a_killed_process_loses_and_doubles_nothing(curated_world: CuratedWorld) -> None:
    world = curated_world
    supply, steps = with_history(world, seed=25)
    where = places(steps)
    for number in range(KILLS):
        world.append(supply.take(15))
        run_until_killed(world, where[number * len(where) // KILLS])
        # Nobody released the dead one's lease: it has to expire.
        world.run(leases=later(world))
        world.catch_up()
        check(world)


def run_until_killed(world: CuratedWorld, place: Place) -> None:
    runtime = world.lake.runtime
    variables = os.environ | runtime.variables() | clients.variables(runtime) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spark.curated_kill_driver", world.topic.model_dump_json()]
    process = subprocess.Popen([*command, str(place.step), place.when], env=variables, start_new_session=True)
    try:
        assert process.wait(600) == -signal.SIGKILL
    finally:
        # Its Java is of the same group, and would end by itself only when it notices.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
