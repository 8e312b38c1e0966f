"""Processes that end before or after any call they make, and what stands afterwards: nothing is lost.

The calls are found by the code itself: a process is killed at its first call, at its second, and so on, until
one survives because it makes no more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal

import pytest

from lambdas.firehose_errors import handler as collector
from lean_ops import naming
from lean_ops.aws import recovery
from lean_ops.aws.books import BreakerTable
from lean_ops.ingestion import raw_record
from lean_ops.ingestion.raw_record import RawRecord
from tests.lambdas.world import TOPIC, Killed, World, body, error_line

When = Literal["before", "after"]
WHENS: tuple[When, When] = ("before", "after")

ids = count()


def killed_at_every_call(world: World, when: When, run: Callable[[], Any]) -> Iterator[str]:
    """Run a process once for each of its calls, killed there; yields where. The caller redelivers."""
    for number in count():
        world.calls.live_on()
        setattr(world.calls, f"kill_{when}", number)
        try:
            run()
        except Killed as end:
            world.calls.live_on()
            yield str(end)
            continue
        finally:
            world.calls.live_on()
        return


def redeliver(world: World) -> None:
    """Everything that is still in the queue is delivered until nothing is."""
    world.time_passes()
    while world.process() is not None:
        world.time_passes()


def fresh(number: int) -> list[str]:
    return [body(f"m{next(ids)}") for _ in range(number)]


def ids_of(bodies: list[str]) -> set[str]:
    return {each.split('"message_id": "')[1].split('"')[0] for each in bodies}


@pytest.mark.parametrize("when", WHENS)
def test_a_processor_killed_at_any_call_loses_nothing(world: World, when: When) -> None:
    sent: set[str] = set()
    ends: list[str] = []

    def deliver() -> None:
        batch = fresh(3)
        sent.update(ids_of(batch))
        world.send(*batch, batch[0])
        world.process()

    for end in killed_at_every_call(world, when, deliver):
        ends.append(end)
        redeliver(world)
        assert world.firehose.message_ids == sent
    operations = {end.split(".")[-1] for end in ends}
    assert operations == {"GetItem", "BatchGetItem", "PutRecordBatch", "BatchWriteItem", "UpdateItem"}
    assert world.waiting("lo-orders-dlq") == []
    world.land()
    books = recovery.pre_raw_balance(world.catalog, stored_books(world), TOPIC)
    assert books.balanced, books


@pytest.mark.parametrize("when", WHENS)
def test_a_processor_killed_at_any_call_of_an_outage_loses_nothing(world: World, when: When) -> None:
    sent: set[str] = set()
    ends: list[str] = []

    def deliver() -> None:
        world.aws.dynamodb.delete_item(
            TableName=world.runtime.names.state_table("breakers"), Key={"topic_name": {"S": TOPIC}}
        )
        batch = fresh(60)
        sent.update(ids_of(batch))
        world.send(*batch)
        world.firehose.down = True
        world.process()

    for end in killed_at_every_call(world, when, deliver):
        ends.append(end)
        world.firehose.down = False
        world.ports.outage.tick(time.time() + 10_000)
        redeliver(world)
        assert world.firehose.message_ids == sent
    operations = {end.split(".")[-1] for end in ends}
    assert {
        "PutRecordBatch",
        "UpdateItem",
        "SendMessageBatch",
        "ListEventSourceMappings",
        "Publish",
    } <= operations
    assert world.waiting("lo-orders-dlq") == []


@pytest.mark.parametrize("when", WHENS)
def test_a_drainer_killed_at_any_call_keeps_every_message_once(world: World, when: When) -> None:
    sent: set[str] = set()
    ends: list[str] = []
    dlq = world.aws.sqs.get_queue_url(QueueName="lo-orders-dlq")["QueueUrl"]

    def drain() -> None:
        batch = fresh(3)
        sent.update(ids_of(batch))
        for text in batch:
            world.aws.sqs.send_message(QueueUrl=dlq, MessageBody=text)
        world.drain()

    drain()  # the first run also creates the table: afterwards every run makes the same calls
    for end in killed_at_every_call(world, when, drain):
        ends.append(end)
        world.time_passes()
        world.drain()
        rows = world.catalog.load_table(("iceberg_raw_db", "dlq_errors")).scan().to_arrow().to_pylist()
        assert sorted(row["message_id"] for row in rows) == sorted(sent)
        for row in rows:
            world.aws.s3.head_object(Bucket=world.runtime.names.ops_bucket, Key=row["archive_key"])
    assert {end.split(".")[-1] for end in ends} == {"PutObject", "Commit"}
    assert world.waiting("lo-orders-dlq") == []


@pytest.mark.parametrize("when", WHENS)
def test_a_collector_killed_at_any_call_keeps_every_record_once(world: World, when: When) -> None:
    ends: list[str] = []
    written: set[str] = set()

    def collect() -> None:
        record = RawRecord(f"m{next(ids)}", TOPIC, 1_794_996_000_000_000, 1, None, "{}")
        written.add(record.message_id)
        key = world.write_error_object("iceberg-failed", error_line(raw_record.text(record)))
        collector.handler({"detail-type": "Object Created", "detail": {"object": {"key": key}}}, None)

    collect()  # the first run also creates the table
    for end in killed_at_every_call(world, when, collect):
        ends.append(end)
        collector._collector().collect_all(time.time())
        rows = world.catalog.load_table(("iceberg_raw_db", "firehose_errors")).scan().to_arrow()
        assert sorted(rows["message_id"].to_pylist()) == sorted(written)
    assert {end.split(".")[-1] for end in ends} == {"GetObject", "Commit"}


@pytest.mark.parametrize("when", WHENS)
def test_a_replay_killed_at_any_call_can_be_repeated_until_all_is_in_raw(world: World, when: When) -> None:
    clock = count(int(time.time()), 2 * 3600)
    dlq = world.aws.sqs.get_queue_url(QueueName="lo-orders-dlq")["QueueUrl"]
    ends: list[str] = []

    def replay() -> None:
        now = float(next(clock))
        hatch = recovery.dlq_hatch(world.dlq_errors, world.ports.queue, TOPIC, now)
        recovery.replay(hatch, TOPIC, now)

    def another() -> None:
        world.aws.sqs.send_message(QueueUrl=dlq, MessageBody=fresh(1)[0])
        kill = world.calls.kill_before, world.calls.kill_after
        world.calls.live_on()
        world.time_passes()
        world.drain()
        world.calls.live_on()
        world.calls.kill_before, world.calls.kill_after = kill
        replay()

    for end in killed_at_every_call(world, when, another):
        ends.append(end)
        replay()
        redeliver(world)
        world.land()
        recovery.settle(world.dlq_errors, TOPIC, next(clock) * 1_000_000)
        assert {each.status for each in world.dlq_errors.standings(TOPIC)} == {"resolved"}
    assert {end.split(".")[-1] for end in ends} >= {"Commit", "SendMessageBatch"}


def stored_books(world: World) -> BreakerTable:
    books = world.ports.books
    assert isinstance(books, BreakerTable)
    return books


@pytest.mark.parametrize(
    "messages", [400, pytest.param(20_000, marks=[pytest.mark.faults, pytest.mark.timeout(1800)])]
)
def test_whatever_fails_every_message_ends_in_raw_or_in_an_error_table(world: World, messages: int) -> None:
    """A fifth of the processes is killed, Firehose refuses entries, DynamoDB throttles, messages come twice,
    some are broken, and some fail between Firehose and RAW."""
    chance = random.Random(20_261_118)  # noqa: S311
    sound = [body(f"m{number}") for number in range(messages)]
    broken = [f"broken {number} {{" for number in range(messages // 50)]
    twice = chance.sample(sound, messages // 20)
    everything = sound + broken + twice
    chance.shuffle(everything)
    world.send(*everything)

    world.firehose.verdict = lambda _: "ServiceUnavailableException" if chance.random() < 0.1 else None
    throttle = {"BatchGetItem", "BatchWriteItem", "UpdateItem", "GetItem"}
    world.calls.refuse = lambda name: (
        "ThrottlingException" if name.split(".")[-1] in throttle and chance.random() < 0.1 else None
    )
    while world.waiting("lo-orders"):
        world.calls.live_on()
        world.time_passes()
        if chance.random() < 0.2:
            setattr(world.calls, f"kill_{chance.choice(WHENS)}", chance.randrange(12))
        try:
            world.process(batch=100)
        except Killed:
            continue
    world.calls.live_on()
    world.calls.refuse = lambda _: None

    world.land(fails=lambda row: row.message_id.endswith("7"))
    world.time_passes()
    while world.drain() is not None:
        pass
    collector._collector().collect_all(time.time())

    raw = world.catalog.load_table(naming.raw_table(TOPIC)).scan().to_arrow()
    in_raw = set(raw["message_id"].to_pylist())
    in_dlq = {each.identity.message_id for each in world.dlq_errors.standings(TOPIC)}
    in_firehose = {each.identity.message_id for each in world.firehose_errors.standings(TOPIC)}
    assert in_raw | in_dlq | in_firehose >= {f"m{number}" for number in range(messages)}
    assert in_firehose >= {f"m{number}" for number in range(7, messages, 10)} - in_dlq
    assert len(in_dlq - in_raw - in_firehose) >= len(broken)
    assert len(in_raw | in_dlq | in_firehose) == messages + len(broken)
    counted = recovery.pre_raw_balance(world.catalog, stored_books(world), TOPIC)
    assert counted.balanced, counted
    asked = recovery.pre_raw_balance(world.catalog, stored_books(world), TOPIC, received=len(everything))
    assert asked.balanced, asked
