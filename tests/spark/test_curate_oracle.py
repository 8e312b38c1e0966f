"""Versions in any order and in any cut end in the rows and the errors that the oracle says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from lean_ops.aws.curated_verification import CuratedVerifier
from lean_ops.batch.next_batch import Volume
from tests.spark.curated_streams import corrections, standardized
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check, curated_topic
from tests.spark.oracle import Identity, Row
from tests.spark.streams import cut
from tests.spark.world import Lake, WorldOf

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

ANYTHING = Volume(records=1_000_000, bytes=1 << 40)
Piece = dict[Identity, Row]


def shuffled(seed: int, count: int, parts: int) -> list[Piece]:
    """A stream in an order of its own, in that many pieces."""
    rng = random.Random(seed)  # noqa: S311
    rows = list(standardized(corrections(seed, count)).items())
    rng.shuffle(rows)
    edges = [0, *sorted(rng.sample(range(1, len(rows)), parts - 1)), len(rows)]
    return [dict(rows[first:last]) for first, last in pairwise(edges)]


def feed(world: CuratedWorld, pieces: Sequence[Piece], bite: Volume = ANYTHING) -> None:
    for piece in pieces:
        world.append(piece)
        world.catch_up(bite)


def assert_proved(world: CuratedWorld) -> None:
    """The tables prove it themselves, without an oracle."""
    result = CuratedVerifier(world.lake.runtime, world.topic).verify()
    assert result.checks
    assert [check.detail for check in result.checks if not check.passed] == []


@pytest.mark.parametrize(
    ("parts", "on_executors"),
    [
        pytest.param(1, False, marks=pytest.mark.faults),
        (3, False),
        pytest.param(2, True, marks=pytest.mark.faults),
    ],
)
def test_versions_end_in_the_oracles_rows_in_any_order_and_any_cut(
    curated_world_of: CuratedWorldOf, parts: int, on_executors: bool
) -> None:
    world = curated_world_of(on_executors=on_executors)
    feed(world, shuffled(parts, 150, parts))
    check(world)
    assert_proved(world)


@pytest.mark.faults
def test_both_hops_together_find_every_path_wherever_it_landed(
    world_of: WorldOf, curated_world_of: CuratedWorldOf
) -> None:
    first = world_of(max_columns=8)
    second = curated_world_of(topic=curated_topic(first.name), on_executors=True)
    for piece in cut(corrections(14, 120), 2, seed=14):
        first.append(piece)
        first.catch_up()
        second.given = first.rows()
        second.catch_up()
    check(second)
    assert_proved(second)


def test_a_replay_under_a_new_contract_heals_what_it_can(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    first, second = shuffled(15, 100, 2)
    feed(world, [first])
    world.deploy("1.2")
    world.replay()
    feed(world, [second])
    check(world)
    assert world.oracle.resolved
    assert world.oracle.errors
    assert_proved(world)


@pytest.mark.faults
def test_a_contract_that_changes_and_replays_in_between_heal_what_they_can(
    curated_world_of: CuratedWorldOf,
) -> None:
    world = curated_world_of()
    first, second, third = shuffled(11, 150, 3)
    feed(world, [first])
    world.replay()
    check(world)
    world.deploy("1.1")
    feed(world, [second])
    check(world)
    world.replay()
    check(world)
    world.deploy("1.2")
    world.replay(code="CDE_MISSING")
    feed(world, [third])
    check(world)
    assert world.oracle.resolved
    assert world.oracle.errors
    assert_proved(world)


@pytest.mark.faults
def test_a_backlog_is_eaten_in_bites_of_days(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    feed(world, shuffled(12, 120, 2), bite=Volume(records=25, bytes=1 << 40))
    check(world)
    assert len(world.history()) > 4


@pytest.mark.faults
def test_glue_and_s3_hold_the_same(lakes: Callable[[str], Lake], curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of(lakes("glue"))
    feed(world, shuffled(13, 60, 2))
    check(world)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(200, 206))
def test_more_streams(lake: Lake, curated_world_of: CuratedWorldOf, seed: int) -> None:
    for parts in (1, 2, 6):
        for on_executors in (False, True):
            for partitioning in ("period", "period_day"):
                world = curated_world_of(lake, on_executors=on_executors, partitioning=partitioning)
                bite = ANYTHING if seed % 2 else Volume(records=70, bytes=1 << 40)
                pieces = shuffled(seed, 200, parts)
                feed(world, pieces[: parts // 2], bite)
                world.deploy("1.1")
                feed(world, pieces[parts // 2 :], bite)
                world.replay()
                check(world)
                world.deploy("1.2")
                world.replay()
                check(world)
                assert_proved(world)
