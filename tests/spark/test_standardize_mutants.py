"""A job that loses, doubles or swaps rows publishes nothing; what the books cannot see, `verify --deep` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lean_ops.aws import table_files
from lean_ops.aws.verification import Verifier
from lean_ops.batch.accounting import Books
from lean_ops.errors import RetryableError
from lean_ops.payload.flatten import FaultCode, ParseFault
from lean_ops.payload.survey import Survey
from spark_jobs import parse_errors, versions
from spark_jobs.messages import Messages
from spark_jobs.transforms import payloads
from spark_jobs.transforms.payloads import Taken
from tests.spark.mutants import appending, run_mutant, sound_append
from tests.spark.streams import RULES, Stream
from tests.spark.world import World, WorldOf, check

pytestmark = pytest.mark.spark

take_apart = payloads.take_apart
sound_messages = Messages.of
LIFO = RULES._replace(lifo=True)


def reshaped(change: Callable[[pa.Table], pa.Table]) -> tuple[Any, str, Any]:
    """The payloads are taken apart, and something is done to the rows."""

    def mutant(*arguments: Any) -> Iterator[Taken]:
        for taken in take_apart(*arguments):
            rows = pa.Table.from_batches([taken.rows])
            changed = change(rows).combine_chunks().to_batches() if len(rows) > 1 else [taken.rows]
            yield taken._replace(rows=changed[0] if changed else taken.rows.slice(0, 0))

    return payloads, "take_apart", mutant


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


def hasty(batches: Iterator[pa.RecordBatch], shape: payloads.TableShape, survey: Survey) -> Iterator[Taken]:
    """Everybody becomes a row at once, and some of them again later."""
    read, any_row = list(batches), shape.of_any_row()
    everybody = take_apart(read, any_row, Survey(any_row.known))
    for taken, all_ in zip(take_apart(read, shape, survey), everybody, strict=True):
        yield taken._replace(rows=all_.rows.select(shape.schema.names))


ON_THE_DRIVER = {
    "a row is lost": reshaped(lambda rows: rows.slice(1)),
    "all rows are lost": reshaped(lambda rows: rows.slice(0, 0)),
    "a row comes twice": reshaped(doubled),
    "a row comes twice, another is lost": reshaped(one_for_another),
    "two rows swap their ids": reshaped(swapped_ids),
    "a row has an id that nobody sent": reshaped(
        lambda rows: renamed(rows, ["nobody's", *rows["message_id"].to_pylist()[1:]])
    ),
}
SET_ASIDE = {
    "lost": (Messages, "take_rest", lambda *_: None),
    "written at once, and again": (payloads, "take_apart", hasty),
}


def judged(change: Callable[[Messages], None]) -> tuple[Any, str, Any]:
    """The decision about fresh and redelivered rows, with something done to it."""

    def mutant(*arguments: Any) -> Messages:
        messages = sound_messages(*arguments)
        change(messages)
        return messages

    return Messages, "of", mutant


def forgetful(messages: Messages) -> None:
    messages.wanted |= messages.known


def trusting(messages: Messages) -> None:
    messages.wanted |= ~messages.known


def greedy(messages: Messages) -> None:
    messages.wanted[messages.wanted.argmax()] = False


def wary(messages: Messages) -> None:
    messages.wanted[:] = False


IN_BOTH_WAYS = {
    "repeats are kept": judged(trusting),
    "one row too many is taken for a redelivery": judged(greedy),
    "nothing is fresh": judged(wary),
    "a file is not committed": appending(lambda files: files[1:]),
    "a file is committed twice": appending(lambda files: [*files, files[0]]),
}
NO_ERRORS = (parse_errors, "append", lambda *_, **__: None)
WAYS = pytest.mark.parametrize("driver_rows", [pytest.param(-1, marks=pytest.mark.faults), 1000])


@pytest.fixture(scope="module")
def waiting(world_of: WorldOf) -> World:
    """A topic with a published batch, and messages of every sort that wait for the next one."""
    world, stream = world_of(), Stream(51)
    world.append(stream.take(60))
    world.catch_up()
    world.append(stream.take(60))
    return world


@pytest.mark.parametrize("name", ON_THE_DRIVER)
def test_a_small_batch_that_does_not_balance_is_not_published(
    waiting: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run_mutant(waiting, monkeypatch, ON_THE_DRIVER[name])


@pytest.mark.parametrize("name", SET_ASIDE)
def test_who_waits_for_a_column_is_neither_lost_nor_doubled(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world, stream = world_of(), Stream(59)
    world.append(stream.take(20))
    world.catch_up()
    world.append([message._replace(json_payload='{"nobody saw this":1}') for message in stream.take(5)])
    run_mutant(world, monkeypatch, SET_ASIDE[name])


@WAYS
@pytest.mark.parametrize("name", IN_BOTH_WAYS)
def test_a_batch_that_was_judged_or_committed_wrongly_is_not_published(
    waiting: World, monkeypatch: pytest.MonkeyPatch, name: str, driver_rows: int
) -> None:
    run_mutant(waiting, monkeypatch, IN_BOTH_WAYS[name], driver_rows=driver_rows)


def test_after_all_these_the_sound_job_does_the_batch(waiting: World) -> None:
    """In the order of this file: what the mutants left behind harms nobody."""
    assert waiting.catch_up()
    check(waiting)


def test_an_error_is_never_written_again(world_of: WorldOf, monkeypatch: pytest.MonkeyPatch) -> None:
    world, stream = world_of(), Stream(58)
    sent = stream.take(60)
    world.append(sent)
    world.catch_up()
    before = world.standardized.metadata.current_snapshot_id
    world.append([*sent, *stream.take(60)])
    with monkeypatch.context() as patch:
        patch.setattr(*judged(forgetful))
        with pytest.raises(RetryableError, match="that it had not when the batch began"):
            world.run()
    assert world.standardized.metadata.current_snapshot_id == before
    assert world.catch_up()
    check(world)


@WAYS
def test_an_error_that_is_not_written_is_missed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    world = world_of()
    world.append(Stream(52).take(40))
    run_mutant(world, monkeypatch, NO_ERRORS, driver_rows=driver_rows)


@WAYS
def test_an_error_that_is_written_twice_is_noticed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    def twice(
        table: Table, files: list[DataFile], summary: Any, *, branch: str = "main", **others: Any
    ) -> None:
        written = [*files, *files] if branch == "main" else files
        sound_append(table, written, summary, branch=branch, **others)

    world = world_of()
    world.append(Stream(52).take(40))
    run_mutant(world, monkeypatch, (table_files, "append", twice), driver_rows=driver_rows)


def test_a_message_that_is_both_sound_and_faulty_is_noticed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def suspicious(batches: Iterator[pa.RecordBatch], *others: Any) -> Iterator[Taken]:
        seems = {0: ParseFault(FaultCode.MALFORMED, "so it seems")}
        for batch in batches:
            for taken in take_apart([batch], *others):
                yield taken._replace(faults=payloads._fault_rows(batch, seems))

    world = world_of()
    world.append(Stream(53).take(1))
    run_mutant(world, monkeypatch, (payloads, "take_apart", suspicious))


@WAYS
def test_a_version_that_nothing_supersedes_is_missed(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, driver_rows: int
) -> None:
    def eager(rows: pa.Table) -> pa.Table:
        return rows.filter(rows["idempotency_key"].is_valid())

    world = world_of(LIFO)
    world.append(Stream(54).take(40))
    run_mutant(world, monkeypatch, (versions, "superseded", eager), driver_rows=driver_rows)


BEHIND_THE_AUDIT = [
    *(ON_THE_DRIVER[name] for name in ("a row is lost", "a row comes twice", "two rows swap their ids")),
    NO_ERRORS,
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
        column = [None if text is None else f"{text}0" for text in column]
        return rows.set_column(
            index, rows.schema.field(index), pa.array(column, rows.schema.field(index).type)
        )

    world = world_of()
    world.append(Stream(56).take(60))
    with monkeypatch.context() as patch:
        patch.setattr(*reshaped(altered))
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
