"""The balance upstream of RAW: it allows for what was taken twice, and for nothing that is missing."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from lambdas.firehose_errors import handler as collector
from lean_ops.aws import recovery
from lean_ops.aws.books import BreakerTable
from lean_ops.ingestion.intake import Delivery, Message, prepare, process
from lean_ops.ingestion.pre_raw import PreRawBalance
from lean_ops.resources import IDEMPOTENCY_SECONDS
from tests.lambdas.world import TOPIC, World, body

SENT = 1_794_996_000_000_000
NOW = SENT / 1e6
ids = count()


def take(world: World, *message_ids: str, now: float = NOW) -> None:
    deliveries = [Delivery(f"sqs-{next(ids)}", body(each), SENT, 1) for each in message_ids]
    assert process(TOPIC, deliveries, world.ports, now).failed == ()


def balance(world: World, received: int | None = None) -> PreRawBalance:
    books = world.ports.books
    assert isinstance(books, BreakerTable)
    return recovery.pre_raw_balance(world.catalog, books, TOPIC, received=received)


@pytest.mark.parametrize("received", [None, 3])
def test_a_duplicate_that_comes_after_24_hours_is_two_rows_and_balances(
    world: World, received: int | None
) -> None:
    take(world, "m1", "m2")
    take(world, "m1", now=NOW + IDEMPOTENCY_SECONDS + 1)
    world.land()
    books = balance(world, received)
    assert (books.received, books.raw, books.overstated) == (3, 2, 1)
    assert books.balanced


def test_messages_of_many_days_are_told_apart_by_their_time_too(world: World) -> None:
    times = [f"{year}-03-0{day}T00:00:00.00000{day}Z" for year in (2024, 2026) for day in (1, 2, 3)]
    texts = [body("m1", publish_time=time) for time in times]
    again = NOW + IDEMPOTENCY_SECONDS + 1
    for now, sent in ((NOW, texts), (again, texts[:2])):
        deliveries = [Delivery(f"sqs-{next(ids)}", text, SENT, 1) for text in sent]
        assert process(TOPIC, deliveries, world.ports, now).failed == ()
    world.land()
    books = balance(world)
    assert (books.received, books.raw, books.overstated) == (8, 6, 2)
    assert books.balanced


def test_a_message_that_two_processes_take_at_once_is_two_rows_and_balances(world: World) -> None:
    def another_takes_it_too(name: str, _: dict[str, Any]) -> None:
        if name == "dynamodb.BatchGetItem":
            world.calls.edit_answer = lambda *_: None
            take(world, "m1")

    world.calls.edit_answer = another_takes_it_too
    take(world, "m1", "m2")
    world.land()
    books = balance(world)
    assert (books.received, books.raw, books.overstated) == (3, 2, 1)
    assert books.balanced


@pytest.mark.parametrize("received", [None, 3])
def test_one_message_missing_in_raw_is_not_balanced(world: World, received: int | None) -> None:
    take(world, "m1", "m2", "m3")
    world.land()
    assert balance(world, received).balanced
    world.catalog.load_table(("iceberg_raw_db", "orders_staging")).delete("message_id == 'm2'")
    books = balance(world, received)
    assert (books.difference, books.balanced) == (-1, False)


def test_a_message_that_its_processes_never_counted_and_firehose_could_not_deliver_balances(
    world: World,
) -> None:
    """Each of its five processes died between delivering and counting."""
    prepared = prepare(TOPIC, Delivery("sqs-1", body("m1"), SENT, 5), NOW)
    assert isinstance(prepared, Message)
    assert world.ports.stream.put([prepared.record]) == {}
    world.land(fails=lambda _: True)
    collector._collector().collect_all(NOW)
    dlq = world.aws.sqs.get_queue_url(QueueName="lo-orders-dlq")["QueueUrl"]
    world.aws.sqs.send_message(QueueUrl=dlq, MessageBody=body("m1"))
    world.drain()
    books = balance(world)
    assert (books.received, books.open_firehose, books.open_dlq, books.understated) == (0, 1, 0, 1)
    assert books.balanced


@pytest.mark.parametrize(("tolerance", "certain"), [(0.0, False), (0.49, False), (0.5, True)])
def test_what_could_be_missing_unseen_is_held_against_a_stated_share(tolerance: float, certain: bool) -> None:
    """Nine of ten are in RAW, and four more may have come uncounted: five may be missing."""
    books = PreRawBalance(10, 9, 0, 0, 0, 0, understated=4, overstated=1)
    assert (books.difference, books.unseen, books.balanced) == (-1, 5, True)
    assert books.certain(tolerance) is certain


def test_what_another_process_remembered_a_moment_ago_is_known(world: World) -> None:
    """The emulator is always consistent; AWS is only when asked."""
    asked: list[Any] = []

    def look(name: str, params: dict[str, Any]) -> None:
        if name == "dynamodb.BatchGetItem":
            asked.extend(json.loads(params["body"])["RequestItems"].values())

    world.calls.edit_request = look
    take(world, "m1")
    assert [each["ConsistentRead"] for each in asked] == [True]
