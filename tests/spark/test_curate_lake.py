"""What people and maintenance do to Curated, its source and the state, between two runs and during one."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lean_ops import naming, tables
from lean_ops.errors import LeanOpsError, RetryableError
from tests.spark.curated_streams import Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check
from tests.spark.faulty import Injected, Interrupted, Place, effects, forget_everything, places

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]


def batches(world: CuratedWorld, supply: Supply, count: int, size: int = 25) -> None:
    for _ in range(count):
        world.append(supply.take(size))
        world.catch_up()


def call(world: CuratedWorld, procedure: str, table: tuple[str, str], *arguments: str) -> None:
    """A maintenance procedure of Iceberg."""
    named = ", ".join((f"table => '{'.'.join(table)}'", *arguments))
    world.lake.spark.sql(f"call {naming.CATALOG}.system.{procedure}({named})").collect()


def compact(world: CuratedWorld, table: tuple[str, str]) -> None:
    call(world, "rewrite_data_files", table, "options => map('rewrite-all', 'true')")
    assert world.lake.catalog.load_table(table).current_snapshot().summary.operation.value == "replace"


def roll_back(world: CuratedWorld, snapshot: int) -> None:
    call(world, "rollback_to_snapshot", naming.curated_table(world.name), f"snapshot_id => {snapshot}")


def head(world: CuratedWorld) -> int:
    return world.curated.metadata.current_snapshot_id


@pytest.mark.faults
def test_rolling_the_table_back_rewinds_it_by_itself(curated_world: CuratedWorld) -> None:
    world, supply = curated_world, Supply(41)
    batches(world, supply, 1)
    snapshot = head(world)
    batches(world, supply, 2)
    roll_back(world, snapshot)
    batches(world, supply, 1)
    check(world)


@pytest.mark.faults
def test_what_a_replay_healed_comes_back_after_the_table_was_rolled_back_over_it(
    curated_world_of: CuratedWorldOf,
) -> None:
    world, supply = curated_world_of(), Supply(34)
    batches(world, supply, 1, size=50)
    snapshot, before = head(world), world.rows()
    world.deploy("1.2")
    world.replay()
    assert world.rows() != before
    roll_back(world, snapshot)
    batches(world, supply, 1)
    world.replay()
    check(world, attempts=False)


@pytest.mark.faults
def test_without_any_state_the_lake_says_where_to_go_on(curated_world: CuratedWorld) -> None:
    world, supply = curated_world, Supply(43)
    batches(world, supply, 2)
    forget_everything(world)
    batches(world, supply, 1)
    check(world)
    assert [result.reason for result in world.history()] == ["incremental"]


@pytest.mark.faults
def test_all_state_may_be_lost_at_any_place_of_a_run(curated_world: CuratedWorld) -> None:
    world, supply = curated_world, Supply(44)
    batches(world, supply, 1)
    world.append(supply.take(20))
    for place in places(effects(world)):
        world.append(supply.take(15))
        with suppress(LeanOpsError):
            world.run(Interrupted(place, act=lambda: forget_everything(world)))
        world.catch_up()
        check(world)


@pytest.mark.faults
def test_a_source_whose_start_expired_is_read_again_from_the_beginning(
    curated_world_of: CuratedWorldOf,
) -> None:
    world, supply = curated_world_of(), Supply(45)
    batches(world, supply, 2)
    for _ in range(3):
        world.append(supply.take(10))
    source = naming.standardized_table(world.name)
    call(
        world, "expire_snapshots", source, "older_than => timestamp '2999-01-01 00:00:00'", "retain_last => 1"
    )
    assert {result.reason for result in world.catch_up()} == {"fallback"}
    check(world)
    batches(world, supply, 1)
    check(world)


@pytest.mark.faults
@pytest.mark.parametrize("crashed", [False, True])
def test_compaction_of_the_source_brings_nothing_new_and_loses_nothing(
    curated_world_of: CuratedWorldOf, crashed: bool
) -> None:
    world, supply = curated_world_of(), Supply(46)
    batches(world, supply, 1)
    world.append(supply.take(15))
    world.append(supply.take(15))
    if crashed:
        steps = effects_of_a_crash(world, "publish")
        assert "publish" in steps
    compact(world, naming.standardized_table(world.name))
    world.append(supply.take(15))
    world.catch_up()
    check(world)
    compact(world, naming.standardized_table(world.name))
    assert world.run() is None


def effects_of_a_crash(world: CuratedWorld, name: str) -> list[str]:
    """Fail right before a step of that name."""

    class UpTo(Interrupted):
        def _at(self, place: Place) -> None:
            if place.when == "before" and self.names[-1] == name:
                raise Injected

    steps = UpTo()
    with pytest.raises(Injected):
        world.run(steps)
    return steps.names


@pytest.mark.faults
def test_compaction_of_the_table_during_the_merge_makes_the_batch_start_over(
    curated_world_of: CuratedWorldOf,
) -> None:
    compact_at(curated_world_of(), Supply(47), ["write_rows"])


@pytest.mark.faults
def test_compaction_of_the_table_at_any_step_loses_and_doubles_nothing(curated_world: CuratedWorld) -> None:
    compact_at(curated_world, Supply(48), None)


def compact_at(world: CuratedWorld, supply: Supply, names: list[str] | None) -> None:
    batches(world, supply, 2)
    world.append(supply.take(20))
    steps, table = effects(world), naming.curated_table(world.name)
    for number, name in enumerate(steps):
        if names is not None and name not in names:
            continue
        world.append(supply.take(20))
        with suppress(RetryableError):
            world.run(Interrupted(Place(number, "before"), act=lambda: compact(world, table)))
        world.catch_up()
        check(world)


@pytest.mark.faults
def test_deleted_rows_stay_deleted_when_deletes_are_compacted(curated_world: CuratedWorld) -> None:
    world, supply = curated_world, Supply(49)
    batches(world, supply, 4)
    table = naming.curated_table(world.name)
    call(world, "rewrite_position_delete_files", table, "options => map('rewrite-all', 'true')")
    check(world)
    compact(world, table)
    check(world)
    batches(world, supply, 2)
    check(world)


def test_errors_that_somebody_compacted_are_read_as_before(curated_world_of: CuratedWorldOf) -> None:
    """Other writers have other kinds of text, and joins take one kind only."""
    world, supply = curated_world_of(), Supply(51)
    batches(world, supply, 2)
    compact(world, tables.ERRORS.identifier)
    batches(world, supply, 1)
    world.deploy("1.2")
    world.replay()
    check(world)


@pytest.mark.faults
def test_spark_sees_what_every_other_reader_sees(curated_world: CuratedWorld) -> None:
    """Rows leave by files that we write ourselves: also by the rules of the reader that everybody uses."""
    world, supply = curated_world, Supply(50)
    batches(world, supply, 3)
    check(world)
    deletes = [task for task in world.curated.scan().plan_files() if task.delete_files]
    assert deletes
    rows = world.lake.spark.table(".".join(naming.curated_table(world.name))).toArrow().to_pylist()
    assert len(rows) == len({row["idempotency_key"] for row in rows}) == len(world.rows())
    assert {row["idempotency_key"]: row["message_id"] for row in rows} == {
        key: row.message_id for key, row in world.rows().items()
    }
