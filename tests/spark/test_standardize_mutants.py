"""A job that loses, doubles or swaps rows publishes nothing; what the books cannot see, `verify --deep` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import DataFrame

from lean_ops.aws.verification import Verifier
from lean_ops.batch.accounting import Books, UnbalancedError
from lean_ops.payload.flatten import FaultCode, ParseFault
from spark_jobs import driver_messages, parse_errors
from spark_jobs.iceberg import IcebergTable
from spark_jobs.protocol import HeldError
from spark_jobs.transforms import duplicates, payloads, versions
from tests.spark.streams import RULES, Stream
from tests.spark.world import World, WorldOf, check

pytestmark = pytest.mark.spark

Batches = Iterator[pa.RecordBatch]
flatten, discover, append = payloads.flatten, payloads.discover, parse_errors.append
without, redeliveries = duplicates.without, duplicates.redeliveries
LIFO = RULES._replace(lifo=True)


def reshaped(change: Callable[[pa.Table], pa.Table]) -> Callable[..., Batches]:
    """`flatten`, with something done to its rows."""

    def mutant(batches: Batches, shape: payloads.TableShape) -> Batches:
        rows = pa.Table.from_batches(flatten(batches, shape), schema=shape.schema)
        return iter(change(rows).combine_chunks().to_batches())

    return mutant


def swapped_ids(rows: pa.Table) -> pa.Table:
    """Two rows change their ids, but not their times: at different times these are two other messages."""
    ids, times = rows["message_id"].to_pylist(), rows["publish_time"].to_pylist()
    other = next(row for row, time in enumerate(times) if time != times[0])
    ids[0], ids[other] = ids[other], ids[0]
    return renamed(rows, ids)


def renamed(rows: pa.Table, ids: list[str]) -> pa.Table:
    return rows.set_column(0, rows.schema.field(0), pa.array(ids, rows.schema.field(0).type))


def doubled(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def one_for_another(rows: pa.Table) -> pa.Table:
    """A loss and a double, which counts alone would take for each other."""
    return pa.concat_tables([rows.slice(1), rows.slice(1, 1)])


ON_THE_DRIVER = {
    "a row is lost": (payloads, "flatten", reshaped(lambda rows: rows.slice(1))),
    "all rows are lost": (payloads, "flatten", reshaped(lambda rows: rows.slice(0, 0))),
    "a row comes twice": (payloads, "flatten", reshaped(doubled)),
    "a row comes twice, another is lost": (payloads, "flatten", reshaped(one_for_another)),
    "two rows swap their ids": (payloads, "flatten", reshaped(swapped_ids)),
    "a row has an id that nobody sent": (
        payloads, "flatten", reshaped(lambda rows: renamed(rows, ["nobody's", *rows["message_id"].to_pylist()[1:]])),
    ),
    "history is forgotten": (driver_messages, "_known", lambda *_: set()),
}  # fmt: skip
NO_ERRORS = {
    -1: (parse_errors, "append", lambda *_: None),
    1000: (parse_errors, "append_few", lambda *_: None),
}
ON_EXECUTORS = {
    "redeliveries are kept": (duplicates, "without", lambda batch, _: batch),
    "no redelivery is found": (duplicates, "redeliveries", lambda *frames: redeliveries(*frames).limit(0)),
    "one row too many is taken for a redelivery": (
        duplicates, "without", lambda *frames: without(*frames).orderBy("message_id").offset(1)
    ),
    "nothing is fresh": (duplicates, "without", lambda *frames: without(*frames).limit(0)),
}  # fmt: skip


@pytest.fixture(scope="module")
def waiting(world_of: WorldOf) -> World:
    """A topic with a published batch, and messages of every sort that wait for the next one."""
    world, stream = world_of(), Stream(51)
    world.append(stream.take(60))
    world.catch_up()
    world.append(stream.take(60))
    return world


def run_mutant(
    world: World, monkeypatch: pytest.MonkeyPatch, mutant: tuple[Any, str, Any], **changes: Any
) -> None:
    """The mutant must be caught, nothing of it be seen, and nothing go on before somebody has looked."""
    before = world.standardized.metadata.current_snapshot_id, world.history()
    monkeypatch.setattr(*mutant)
    with pytest.raises(UnbalancedError) as caught:
        world.run(work=world.work(**changes))
    assert caught.value.facts["faults"]
    with pytest.raises(HeldError, match="does not balance"):
        world.run()
    assert (world.standardized.metadata.current_snapshot_id, world.history()) == before
    world.accept()


@pytest.mark.parametrize("name", ON_THE_DRIVER)
def test_a_small_batch_that_does_not_balance_is_not_published(
    waiting: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run_mutant(waiting, monkeypatch, ON_THE_DRIVER[name])


@pytest.mark.faults
@pytest.mark.parametrize("name", ON_EXECUTORS)
def test_a_big_batch_that_does_not_balance_is_not_published(
    waiting: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run_mutant(waiting, monkeypatch, ON_EXECUTORS[name], driver_rows=-1)


def test_rows_that_get_lost_on_their_way_to_the_table_are_missed(
    waiting: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = IcebergTable.append

    def lossy(table: IcebergTable, frame: DataFrame, *arguments: Any, **options: Any) -> None:
        written(table, frame.limit(1), *arguments, **options)

    run_mutant(waiting, monkeypatch, (IcebergTable, "append", lossy))


def test_after_all_these_the_sound_job_does_the_batch(waiting: World) -> None:
    """In the order of this file: what the mutants left behind harms nobody."""
    assert waiting.catch_up()
    check(waiting)


@pytest.mark.parametrize("driver_rows", [pytest.param(-1, marks=pytest.mark.faults), 1000])
def test_an_error_that_is_not_written_is_missed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    world = world_of()
    world.append(Stream(52).take(40))
    run_mutant(world, monkeypatch, NO_ERRORS[driver_rows], driver_rows=driver_rows)


@pytest.mark.parametrize("driver_rows", [pytest.param(-1, marks=pytest.mark.faults), 1000])
def test_an_error_that_is_written_twice_is_noticed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    def twice(table: IcebergTable, faults: DataFrame, known: DataFrame, plan: Any) -> None:
        append(table, faults.unionByName(faults), known, plan)

    def few_twice(catalog: Catalog, identifier: tuple[str, str], rows: list[Any], **_: Any) -> None:
        table = catalog.load_table(identifier)
        table.append(pa.Table.from_pylist([*rows, *rows], schema=table.schema().as_arrow()))

    world = world_of()
    world.append(Stream(52).take(40))
    mutant = ("append", twice) if driver_rows < 0 else ("append_missing", few_twice)
    run_mutant(world, monkeypatch, (parse_errors, *mutant), driver_rows=driver_rows)


def test_a_message_that_is_both_sound_and_faulty_is_noticed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def suspicious(batches: Batches, known: Any) -> Batches:
        together = pa.Table.from_batches(batches).combine_chunks().to_batches()
        yield from discover(iter(together), known)
        yield payloads._fault_rows(together[0], [(0, ParseFault(FaultCode.MALFORMED, "so it seems"))])

    world = world_of()
    world.append(Stream(53).take(1))
    run_mutant(world, monkeypatch, (payloads, "discover", suspicious))


@pytest.mark.parametrize("driver_rows", [pytest.param(-1, marks=pytest.mark.faults), 1000])
def test_a_version_that_nothing_supersedes_is_missed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    def eager(rows: DataFrame) -> DataFrame:
        return rows.where("idempotency_key is not null").select(
            "message_id", "publish_time", "idempotency_key"
        )

    world = world_of(LIFO)
    world.append(Stream(54).take(40))
    run_mutant(world, monkeypatch, (versions, "superseded", eager), driver_rows=driver_rows)


BEHIND_THE_AUDIT = [
    *(ON_THE_DRIVER[name] for name in ("a row is lost", "a row comes twice", "two rows swap their ids")),
    NO_ERRORS[1000],
]


@pytest.mark.parametrize("mutant", BEHIND_THE_AUDIT)
def test_what_an_audit_overlooked_is_found_by_verify(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, mutant: tuple[Any, str, Any]
) -> None:
    world = world_of()
    world.append(Stream(55).take(40))
    with monkeypatch.context() as patch:
        patch.setattr(*mutant)
        patch.setattr(Books, "faults", lambda _: [])
        world.catch_up()
    checks = Verifier(world.lake.runtime, world.topic).verify(sample=0).checks
    assert not all(each.passed for each in checks)


def test_a_changed_value_is_found_by_a_deep_verify(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The books see identities only, and balance."""

    def altered(rows: pa.Table) -> pa.Table:
        index, column = rows.schema.get_field_index("id"), rows["id"].to_pylist()
        first = next(row for row, text in enumerate(column) if text is not None)
        column[first] += "0"
        return rows.set_column(
            index, rows.schema.field(index), pa.array(column, rows.schema.field(index).type)
        )

    world = world_of()
    world.append(Stream(56).take(60))
    with monkeypatch.context() as patch:
        patch.setattr(payloads, "flatten", reshaped(altered))
        world.catch_up()
    verifier = Verifier(world.lake.runtime, world.topic)
    assert all(each.passed for each in verifier.verify(sample=0).checks)
    assert not all(each.passed for each in verifier.verify(sample=1000).checks)


def test_a_sound_topic_passes_a_deep_verify(world_of: WorldOf) -> None:
    world, stream = world_of(max_columns=10), Stream(57)
    for _ in range(2):
        world.append(stream.take(60))
        world.catch_up()
    assert all(each.passed for each in Verifier(world.lake.runtime, world.topic).verify(sample=1000).checks)
