"""What people and maintenance do to the tables and the state between two runs."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lean_ops import naming
from lean_ops.batch.next_batch import Volume
from lean_ops.config.topics import DriftSpec, KeysSpec
from lean_ops.errors import DataFaultError, LeanOpsError
from tests.spark.faulty import (
    Crashing,
    Injected,
    Interrupted,
    effects,
    everything,
    forget_everything,
    places,
)
from tests.spark.streams import Stream
from tests.spark.world import World, WorldOf, all_at_once, assert_tables, check

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


def batches(world: World, stream: Stream, count: int, size: int = 20) -> None:
    for _ in range(count):
        world.append(stream.take(size))
        world.catch_up()


def call(world: World, procedure: str, table: tuple[str, str], *arguments: str) -> None:
    """A maintenance procedure of Iceberg."""
    named = ", ".join((f"table => '{'.'.join(table)}'", *arguments))
    world.lake.spark.sql(f"call {naming.CATALOG}.system.{procedure}({named})").collect()


def raw(world: World) -> tuple[str, str]:
    return naming.raw_table(world.name)


def expire_all_but_the_newest(world: World, kept: int = 1) -> None:
    call(
        world,
        "expire_snapshots",
        raw(world),
        "older_than => timestamp '2999-01-01 00:00:00'",
        f"retain_last => {kept}",
    )


def crash(world: World) -> None:
    """A plan is open, and much of it done, but nothing is published."""
    with pytest.raises(Injected):
        world.run(Crashing(world))
    assert world.ports().checkpoints.load(world.name, "standardize").open_plan is not None


def test_rolling_the_table_back_rewinds_it_by_itself(world: World) -> None:
    stream = Stream(31)
    batches(world, stream, 1)
    snapshot = world.standardized.metadata.current_snapshot_id
    batches(world, stream, 2)
    call(world, "rollback_to_snapshot", naming.standardized_table(world.name), f"snapshot_id => {snapshot}")
    drift = world.drift()
    world.append(stream.take(20))
    world.catch_up()
    assert_tables(world, all_at_once(world))
    again = [change for change in world.drift() if change not in drift]
    assert {path for _, action, path in drift if action == "ADDED"}.isdisjoint(
        path for _, action, path in again if action == "ADDED"
    )
    batches(world, stream, 1)
    assert_tables(world, all_at_once(world))


def test_a_table_that_is_rolled_back_under_an_open_plan_is_filled_again(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(32)
    batches(world, stream, 1)
    snapshot = world.standardized.metadata.current_snapshot_id
    batches(world, stream, 1)
    world.append(stream.take(20))
    crash(world)
    call(world, "rollback_to_snapshot", naming.standardized_table(world.name), f"snapshot_id => {snapshot}")
    world.catch_up()
    assert_tables(world, all_at_once(world))


@pytest.mark.faults
def test_a_fault_at_any_place_of_a_run_that_discards_a_plan(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(33)
    batches(world, stream, 1)

    def outdated_plan() -> None:
        snapshot = world.standardized.metadata.current_snapshot_id
        batches(world, stream, 1)
        world.append(stream.take(15))
        crash(world)
        call(
            world, "rollback_to_snapshot", naming.standardized_table(world.name), f"snapshot_id => {snapshot}"
        )

    outdated_plan()
    for place in places(effects(world)):
        outdated_plan()
        with pytest.raises(Injected):
            world.run(Interrupted(place))
        world.catch_up()
        assert_tables(world, all_at_once(world))


def test_without_any_state_the_lake_says_where_to_go_on(world: World) -> None:
    stream = Stream(34)
    batches(world, stream, 2)
    forget_everything(world)
    batches(world, stream, 1)
    assert_tables(world, all_at_once(world))
    assert [result.reason for result in world.history()] == ["incremental"]


@pytest.mark.faults
def test_all_state_may_be_lost_at_any_place_of_a_run(world: World) -> None:
    stream = Stream(35)
    batches(world, stream, 1)
    world.append(stream.take(20))
    for place in places(effects(world)):
        columns = world.paths()
        world.append(stream.take(15))
        with suppress(LeanOpsError):
            world.run(Interrupted(place, act=lambda: forget_everything(world)))
        world.catch_up()
        assert_tables(world, all_at_once(world))
        # Told by the batch that published them, or lost with the state after it did.
        added = [path for _, action, path in world.drift() if action == "ADDED"]
        assert len(added) == len(set(added))
        assert set(added) in ({*world.paths()} - {*columns}, set())


def test_new_columns_are_told_even_if_all_state_is_lost_after_they_were_added(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(36)
    world.append(stream.take(40))
    crash(world)
    forget_everything(world)
    world.catch_up()
    check(world)


@pytest.mark.parametrize("bite", [pytest.param(1_000_000, marks=pytest.mark.faults), 20])
def test_a_start_that_expired_falls_back_to_all_of_raw(world: World, bite: int) -> None:
    stream = Stream(37)
    batches(world, stream, 2)
    for _ in range(3):
        world.append(stream.take(15))
    expire_all_but_the_newest(world)
    done = world.catch_up(Volume(records=bite, bytes=1 << 40))
    assert {result.reason for result in done} == {"fallback"}
    assert_tables(world, all_at_once(world))
    batches(world, stream, 1)
    assert world.history()[-1].reason == "incremental"
    assert_tables(world, all_at_once(world))


def test_an_expired_start_is_read_on_from_while_a_kept_snapshot_names_it(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(38)
    batches(world, stream, 2)
    world.append(stream.take(15))
    world.append(stream.take(15))
    expire_all_but_the_newest(world, kept=2)
    world.catch_up()
    check(world)
    assert world.history()[-1].reason == "incremental"


def test_an_open_plan_whose_source_expired_is_done_from_what_is_left(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(39)
    batches(world, stream, 1)
    world.append(stream.take(15))
    crash(world)
    world.append(stream.take(15))
    world.append(stream.take(15))
    expire_all_but_the_newest(world)
    world.catch_up()
    assert_tables(world, all_at_once(world))


def test_a_plan_is_done_again_with_the_contract_and_the_settings_that_are_written_in_it(world: World) -> None:
    stream = Stream(40)
    batches(world, stream, 1)
    world.append(stream.take(40))
    crash(world)
    changed = world.topic.model_copy(
        update={
            "keys": KeysSpec(idempotency_key="ref", period_reference="note"),
            "drift": DriftSpec(new_column="ignore", max_columns=1),
            "standardized_lifo": "batch",
        }
    )
    result = world.run(work=world.work(topic=changed, contract_version="2.0", contract_sha256="f" * 64))
    assert result is not None
    assert result.contract_version == "1.0"
    check(world)


def test_what_comes_after_a_plan_that_was_done_again_has_the_new_settings(world_of: WorldOf) -> None:
    world = world_of()
    stream = Stream(41)
    batches(world, stream, 1)
    world.append(stream.take(15))
    crash(world)
    changed = world.topic.model_copy(update={"drift": DriftSpec(new_column="ignore")})
    world.run(work=world.work(topic=changed))
    columns = world.paths()
    world.append(stream.take(40))
    result = world.run(work=world.work(topic=changed, contract_version="2.0"))
    assert result is not None
    assert result.contract_version == "2.0"
    assert world.paths() == columns
    assert_tables(world, all_at_once(world))


@pytest.mark.parametrize(
    "when", [pytest.param("before the run", marks=pytest.mark.faults), "between plan and replay"]
)
def test_compaction_of_raw_brings_nothing_new_and_loses_nothing(world: World, when: str) -> None:
    stream = Stream(42)
    batches(world, stream, 1)
    for _ in range(3):
        world.append(stream.take(15))
    if when == "between plan and replay":
        crash(world)
    call(world, "rewrite_data_files", raw(world), "options => map('rewrite-all', 'true')")
    assert world.raw.current_snapshot().summary.operation.value == "replace"
    world.append(stream.take(15))
    world.catch_up()
    check(world)
    call(world, "rewrite_data_files", raw(world), "options => map('rewrite-all', 'true')")
    assert world.run() is None
    expire_all_but_the_newest(world)
    world.append(stream.take(15))
    world.catch_up()
    assert_tables(world, all_at_once(world))


@pytest.mark.parametrize(
    "change",
    [
        "delete from {table} where message_id = '{id}'",
        "update {table} set json_payload = '{{}}' where message_id = '{id}'",
    ],
)
@pytest.mark.parametrize("crashed", [pytest.param(False, marks=pytest.mark.faults), True])
def test_rows_that_somebody_changed_in_raw_wait_for_a_decision(
    world_of: WorldOf, change: str, crashed: bool
) -> None:
    world = world_of()
    stream = Stream(43)
    batches(world, stream, 1)
    world.append(stream.take(15))
    if crashed:
        crash(world)
    before = everything(world)
    victim = next(message.message_id for message in world.messages() if message.message_id.isalnum())
    table = f"{naming.CATALOG}.{'.'.join(raw(world))}"
    world.lake.spark.sql(f"refresh table {table}")
    world.lake.spark.sql(change.format(table=table, id=victim))
    world.append(stream.take(15))
    with pytest.raises(DataFaultError, match=r"overwrite|delete"):
        world.run()
    assert everything(world) == before


def test_leaves_that_the_topic_forbids_stop_the_batch_until_it_allows_them(world_of: WorldOf) -> None:
    world = world_of(new_column="fail")
    stream = Stream(44)
    world.append(stream.take(20))
    before = everything(world)
    for _ in range(2):
        with pytest.raises(DataFaultError, match="without a column"):
            world.run()
    assert everything(world) == before
    world.topic = world.topic.model_copy(update={"drift": DriftSpec(new_column="add")})
    world.catch_up()
    check(world)
