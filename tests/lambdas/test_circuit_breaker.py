"""An outage of a dependency: polling stops, nothing is lost, no dead-letter queue fills, people hear once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from moto.dynamodb.responses import DynamoHandler

from lambdas.breaker_controller import handler as controller
from lean_ops.ingestion.breaker import Breaker, State
from lean_ops.ingestion.intake import Delivery, Result, process
from lean_ops.ingestion.outage import GRACE_SECONDS, WATCH_SECONDS
from lean_ops.ingestion.ports import Tally
from lean_ops.resources import BREAKER, QUEUES
from local import moto_corrections
from tests.lambdas.world import TOPIC, World, body

NOW = 1_794_996_000.0
ids = count()


@pytest.fixture
def polled(world: World) -> World:
    """A world whose queues have event source mappings, and whose alerts end in a queue."""
    names = world.runtime.names
    role = world.aws.iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}", Path="/")["Role"]["Arn"]
    function = world.runtime.names.function("sqs_processor")
    getattr(world.aws, "lambda").create_function(
        FunctionName=function, Runtime="python3.12", Role=role, Handler="h", Code={"ZipFile": b"zip"}
    )
    for topic in (TOPIC, "payments"):
        getattr(world.aws, "lambda").create_event_source_mapping(
            FunctionName=function, EventSourceArn=names.queue_arn(names.queue(topic))
        )
    world.aws.sqs.create_queue(QueueName="people")
    world.aws.sns.subscribe(
        TopicArn=names.alert_topic_arn, Protocol="sqs", Endpoint=names.queue_arn("people")
    )
    return world


def batch(size: int, receives: int = 1) -> list[Delivery]:
    return [
        Delivery(f"sqs-{next(ids)}", body(f"m{next(ids)}"), int(NOW * 1e6), receives) for _ in range(size)
    ]


def take(world: World, size: int, now: float, receives: int = 1) -> Result:
    return process(TOPIC, batch(size, receives), world.ports, now)


def breaker(world: World) -> Breaker:
    return world.ports.books.read(TOPIC)


def polling(world: World) -> dict[str, bool]:
    return dict(world.ports.outage.pollers.polled())


def alerts(world: World) -> list[str]:
    return [json.loads(message.body)["Subject"] for message in world.waiting("people")]


def parked(world: World) -> list[str]:
    return [message.body for message in world.waiting("lo-orders")]


def test_an_outage_stops_its_topic_parks_what_arrives_and_ends_by_itself(polled: World) -> None:
    world, tick = polled, polled.ports.outage.tick
    world.firehose.down = True
    result = take(world, 100, NOW)
    assert (breaker(world).state, polling(world)) == (State.OPEN, {TOPIC: False, "payments": True})
    assert (result.failed, result.tally.parked) == ((), 100)
    assert alerts(world) == ["orders: ingestion stopped"]

    late = take(world, 10, NOW + 1)  # an invocation that was already on its way
    assert (late.failed, late.tally.parked) == ((), 10)
    assert tick(NOW + BREAKER.cool_down_seconds - 1) == {}
    assert not polling(world)[TOPIC]

    tick(NOW + BREAKER.cool_down_seconds)
    assert (breaker(world).state, polling(world)[TOPIC]) == (State.HALF_OPEN, True)
    assert take(world, 5, NOW + 61).tally.parked == 5  # still down: parked, and open again for longer
    assert (breaker(world).state, polling(world)[TOPIC]) == (State.OPEN, False)
    tick(NOW + 61 + BREAKER.cool_down_seconds)
    assert breaker(world).state is State.OPEN

    world.firehose.down = False
    tick(NOW + 61 + 2 * BREAKER.cool_down_seconds)
    world.time_passes()
    world.process()
    assert (breaker(world).state, polling(world)[TOPIC]) == (State.CLOSED, True)
    assert len(world.firehose.message_ids) == 115
    assert (world.waiting("lo-orders"), world.waiting("lo-orders-dlq")) == ([], [])
    assert alerts(world) == ["orders: ingestion stopped"]


def test_a_parked_message_carries_its_resolved_identity_and_waits(polled: World) -> None:
    world = polled
    world.firehose.down = True
    lacking = [Delivery(f"sqs-{n}", '{"payload": {"a":  1.10}}', int(NOW * 1e6) + n, 1) for n in range(100)]
    process(TOPIC, lacking, world.ports, NOW)
    assert {json.loads(text)["message_id"] for text in parked(world)} == {f"sqs-{n}" for n in range(100)}
    assert all('"payload":{"a":  1.10}' in text for text in parked(world))
    assert world.process() is None, "parked messages are not visible before the cool-down is over"


def test_few_failures_do_not_open_the_breaker_and_come_again(polled: World) -> None:
    polled.firehose.down = True
    result = take(polled, BREAKER.min_count - 1, NOW)
    assert (len(result.failed), result.tally.parked) == (BREAKER.min_count - 1, 0)
    assert breaker(polled).state is State.CLOSED


def test_failures_of_an_earlier_window_are_forgotten(polled: World) -> None:
    polled.firehose.down = True
    for window in range(4):
        take(polled, BREAKER.min_count // 2, NOW + window * BREAKER.window_seconds)
    assert breaker(polled).state is State.CLOSED
    take(polled, BREAKER.min_count // 2, NOW + 3 * BREAKER.window_seconds)
    assert breaker(polled).state is State.OPEN


@pytest.mark.parametrize("service", ["firehose", "dynamodb"])
def test_a_dependency_never_sends_a_message_to_the_dead_letter_queue(polled: World, service: str) -> None:
    """Too few to open the breaker, or no breaker to be read: at its last receive a message is parked."""
    polled.send(body("m1"))
    polled.calls.refuse = lambda name: "ThrottlingException" if name.startswith(service) else None
    for _ in range(3):
        polled.exhaust_receives()
    assert polled.waiting("lo-orders-dlq") == []
    assert len(polled.waiting("lo-orders")) == 1
    polled.calls.refuse = lambda _: None
    polled.exhaust_receives()
    assert polled.firehose.message_ids == {"m1"}


def test_broken_envelopes_are_failed_not_parked_while_the_breaker_is_open(polled: World) -> None:
    polled.firehose.down = True
    take(polled, 100, NOW)
    bad = Delivery("sqs-bad", "broken {", int(NOW * 1e6), 1)
    result = process(TOPIC, [bad, *batch(1)], polled.ports, NOW + 1)
    assert (result.failed, result.tally.parked) == (("sqs-bad",), 1)


def test_what_cannot_be_parked_is_failed(polled: World) -> None:
    polled.firehose.down = True
    polled.calls.refuse = lambda name: "AccessDenied" if name == "sqs.SendMessageBatch" else None
    result = take(polled, 100, NOW)
    assert (len(result.failed), result.tally.parked) == (100, 0)


def test_a_transition_has_one_winner(polled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    books = polled.ports.books
    monkeypatch.setattr(DynamoHandler, "call_action", DynamoHandler.call_action)  # restored afterwards
    moto_corrections._one_at_a_time(DynamoHandler)  # moto's conditions are not atomic
    closed = books.count(TOPIC, Tally(refused=100), NOW)
    opened = Breaker(TOPIC, State.OPEN, int(NOW), 1)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: books.move(closed, opened), range(40))) == [False] * 39 + [True]


def test_a_crash_after_the_transition_is_made_good_by_the_controller(polled: World) -> None:
    books, tick = polled.ports.books, polled.ports.outage.tick
    closed = books.count(TOPIC, Tally(refused=100), NOW)
    books.move(closed, Breaker(TOPIC, State.OPEN, int(NOW), 1, alerted=False))
    tick(NOW + 1)
    assert not polling(polled)[TOPIC]
    assert alerts(polled) == [], "whoever moved it may still be about to alert"
    tick(NOW + GRACE_SECONDS + 1)
    tick(NOW + GRACE_SECONDS + 2)
    assert len(alerts(polled)) == 1


def test_the_controller_leaves_a_mapping_alone_that_a_person_disabled(polled: World) -> None:
    take(polled, 1, NOW)
    polled.ports.outage.pollers.set_polling(TOPIC, enabled=False)
    polled.ports.outage.tick(NOW + WATCH_SECONDS + 1)
    assert not polling(polled)[TOPIC]


def test_one_topic_that_cannot_be_followed_does_not_stop_the_others(polled: World) -> None:
    polled.firehose.down = True
    for topic in (TOPIC, "payments"):
        process(topic, batch(100), polled.ports, NOW)
    refusals = iter([True])
    polled.calls.refuse = lambda name: (
        "ResourceInUseException"
        if name == "lambda.UpdateEventSourceMapping" and next(refusals, False)
        else None
    )
    faults = polled.ports.outage.tick(NOW + BREAKER.cool_down_seconds)
    assert list(faults.values()) == ["ResourceInUseException"]
    assert sorted(polling(polled).values()) == [False, True]
    assert polled.ports.outage.tick(NOW + BREAKER.cool_down_seconds + 1) == {}
    assert sorted(polling(polled).values()) == [True, True]


def test_the_controller_runs_as_a_function(polled: World) -> None:
    controller._outage.cache_clear()
    polled.firehose.down = True
    take(polled, 100, NOW - 10 * BREAKER.max_cool_down_seconds)
    assert controller.handler({}, None) == {"faults": {}}
    assert polling(polled)[TOPIC]


def test_the_last_receive_is_parked_without_opening_anything(polled: World) -> None:
    polled.firehose.down = True
    result = take(polled, 2, NOW, receives=QUEUES.max_receives)
    assert (result.failed, result.tally.parked, breaker(polled).state) == ((), 2, State.CLOSED)


def test_a_batch_is_parked_although_polling_could_not_follow_its_breaker(polled: World) -> None:
    polled.firehose.down = True
    polled.calls.refuse = lambda name: "AccessDenied" if name.startswith("lambda.") else None
    result = take(polled, 60, NOW)
    assert breaker(polled).state is State.OPEN
    assert (result.failed, result.tally.parked) == ((), 60)
