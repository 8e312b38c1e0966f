"""Whatever fails or is killed, wherever it happens: the next run ends in the oracle's tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from lean_ops.aws import clients
from tests.repositories import ROOT
from tests.spark.faulty import Injected, Interrupted, Place, effects, later, places
from tests.spark.oracle import Rules
from tests.spark.streams import RULES, Stream
from tests.spark.world import Lake, World, WorldOf, check

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

LIFO = RULES._replace(lifo=True)
KILLS = 10


def a_topic_with_history(world: World, seed: int) -> tuple[Stream, list[str]]:
    """A first read is done; the steps are those of a batch with errors, redeliveries and new columns."""
    stream = Stream(seed)
    world.append(stream.take(40))
    world.catch_up()
    world.append(stream.take(40))
    return stream, effects(world)


def fail_everywhere(world: World, stream: Stream, where: Sequence[Place]) -> None:
    for place in where:
        world.append(stream.take(25))
        with pytest.raises(Injected):
            world.run(Interrupted(place))
        world.catch_up()
        check(world)


def test_a_fault_at_some_places_loses_and_doubles_nothing(world_of: WorldOf) -> None:
    world = world_of()
    stream, steps = a_topic_with_history(world, seed=11)
    fail_everywhere(world, stream, places(steps)[1::11])


@pytest.mark.faults
@pytest.mark.parametrize(
    ("kind", "rules", "on_executors"),
    [("sqlite", RULES, False), ("sqlite", LIFO, True), ("glue", LIFO, False)],
)
def test_a_fault_before_or_after_any_step_loses_and_doubles_nothing(
    lakes: Callable[[str], Lake], world_of: WorldOf, kind: str, rules: Rules, on_executors: bool
) -> None:
    world = world_of(rules, lakes(kind), on_executors=on_executors)
    stream, steps = a_topic_with_history(world, seed=12)
    fail_everywhere(world, stream, places(steps))


@pytest.mark.faults
def test_a_fault_at_any_place_of_the_first_read(world_of: WorldOf) -> None:
    template = world_of()
    template.append(Stream(13).take(30))
    for place in places(effects(template)):
        world = world_of()
        fail_everywhere(world, Stream(13), [place])


@pytest.mark.faults
def test_a_killed_process_loses_and_doubles_nothing(world: World) -> None:
    stream, steps = a_topic_with_history(world, seed=14)
    where = places(steps)
    for number in range(KILLS):
        world.append(stream.take(25))
        run_until_killed(world, where[number * len(where) // KILLS])
        # Nobody released the dead one's lease: it has to expire.
        assert world.run(leases=later(world)) is not None or number * len(where) // KILLS == len(where) - 1
        check(world)


def run_until_killed(world: World, place: Place) -> None:
    runtime = world.lake.runtime
    variables = os.environ | runtime.variables() | clients.variables(runtime) | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spark.kill_driver", world.topic.model_dump_json()]
    process = subprocess.Popen([*command, str(place.step), place.when], env=variables, start_new_session=True)
    try:
        assert process.wait(600) == -signal.SIGKILL
    finally:
        # Its Java is of the same group, and would end by itself only when it notices.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
