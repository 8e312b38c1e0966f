"""Streams cut into batches in every way end in the tables, the books and the drift that the oracle says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lean_ops.batch.next_batch import Volume
from tests.spark.oracle import Message
from tests.spark.streams import RULES, cut, messages
from tests.spark.world import Lake, World, WorldOf, check

pytestmark = pytest.mark.spark

LIFO = RULES._replace(lifo=True)
ANYTHING = Volume(records=1_000_000, bytes=1 << 40)


def feed(world: World, pieces: Sequence[Sequence[Message]], bite: Volume = ANYTHING) -> None:
    """Each piece is a commit of RAW, followed by all the batches that it takes."""
    for piece in pieces:
        world.append(piece)
        world.catch_up(bite)


def reasons(world: World) -> list[str]:
    return [result.reason for result in world.history()]


@pytest.mark.parametrize(("parts", "on_executors"), [(1, False), (4, False), (2, True)])
def test_a_stream_ends_in_the_oracles_tables_however_it_is_cut(
    world_of: WorldOf, parts: int, on_executors: bool
) -> None:
    world = world_of(max_columns=30, on_executors=on_executors)
    feed(world, cut(messages(1, 240), parts, seed=parts))
    check(world)
    assert reasons(world) == ["first_read", *["incremental"] * (parts - 1)]
    assert len(world.paths()) == 30


@pytest.mark.parametrize("on_executors", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_versions_that_a_later_one_of_the_same_batch_supersedes_are_left_out_if_the_topic_says_so(
    world_of: WorldOf, on_executors: bool
) -> None:
    world = world_of(LIFO, on_executors=on_executors)
    feed(world, cut(messages(2, 160), 2, seed=2))
    check(world)
    assert all(result.counts["superseded_messages"] for result in world.history())


def test_new_leaves_go_to_overflow_if_the_topic_ignores_new_columns(world_of: WorldOf) -> None:
    world = world_of(new_column="ignore")
    feed(world, cut(messages(3, 80), 2, seed=3))
    check(world)
    assert world.paths() == set()


def test_a_backlog_is_eaten_in_bites_of_snapshots_and_of_days(world_of: WorldOf) -> None:
    world = world_of()
    first, *others = cut(messages(4, 150), 4, seed=4)
    feed(world, [first], bite=Volume(records=12, bytes=1 << 40))
    assert all(result.first_day or result.last_day for result in world.history()), "the first read by days"
    for piece in others:
        world.append(piece)
    world.catch_up(bite=Volume(records=45, bytes=1 << 40))
    check(world)
    by_days = [result for result in world.history() if result.first_day or result.last_day]
    assert {result.reason for result in by_days} == {"first_read", "incremental"}
    assert len(by_days) < len(world.history()), "some snapshots are small enough to be read whole"


def test_glue_and_s3_hold_the_same(lakes: Callable[[str], Lake], world_of: WorldOf) -> None:
    world = world_of(lake=lakes("glue"), max_columns=20)
    feed(world, cut(messages(5, 80), 2, seed=5))
    check(world)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 106))
def test_more_streams(lake: Lake, world_of: WorldOf, seed: int) -> None:
    stream = messages(seed, 300)
    for rules, drift in ((RULES, {"max_columns": 5 * (seed % 10 + 1)}), (LIFO, {"new_column": "ignore"})):
        for parts in (1, 5):
            for on_executors in (False, True):
                world = world_of(rules, lake, on_executors=on_executors, **drift)
                bite = ANYTHING if seed % 2 else Volume(records=100, bytes=1 << 40)
                feed(world, cut(stream, parts, seed), bite)
                check(world)
