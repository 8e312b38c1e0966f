"""Streams cut into batches in every way end in the tables, and the books, that the oracle says."""

from __future__ import annotations

import pytest

from tests.spark.oracle import Oracle
from tests.spark.streams import cut, messages
from tests.spark.world import World, WorldOf, assert_equal, books_of

pytestmark = pytest.mark.spark


def check_books(world: World) -> Oracle:
    """Every batch of a world against the oracle, in order. Returns the oracle, which has seen them all."""
    oracle = Oracle(world.rules)
    for result in world.results:
        expected = oracle.take(world.messages(result))
        found = books_of(result)
        assert {name: found[name] for name in expected} == expected, result.batch_id
    return oracle


@pytest.mark.parametrize("seed", [1])
def test_a_stream_ends_in_the_oracles_tables_however_it_is_cut(world_of: WorldOf, seed: int) -> None:
    stream = messages(seed, 240)
    for parts in (1, 4):
        world = world_of(max_columns=30)
        for piece in cut(stream, parts, seed):
            world.append(piece)
            world.catch_up()
        check_books(world)
        assert_equal(world, world.oracle())
