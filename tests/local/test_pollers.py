"""What Lambda does with a queue: only what a function has answered for is deleted."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from local.execution import FunctionError
from local.pollers import Mapping, Message, Poller, batch_call, failed_ids, relay_call
from tests.local.conftest import Emulator, wait_until

Event = dict[str, Any]


class Source:
    """A queue with a mapping that a test may switch off."""

    def __init__(self, emulator: Emulator, batch_size: int = 50) -> None:
        self.sqs = emulator.client("sqs")
        name = f"q-{uuid.uuid4()}"
        self.url = self.sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
        self.batch_size, self.enabled = batch_size, True
        self.arn = f"arn:aws:sqs:us-east-1:000000000000:{name}"

    def mapping(self) -> Mapping:
        return Mapping(self.arn, "sqs_processor", self.batch_size, self.enabled)

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def left(self) -> int:
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))

    @contextmanager
    def polled(self, invoke: Callable[[Sequence[Message], Mapping], set[str]]) -> Iterator[None]:
        stopping = threading.Event()
        poller = Poller(self.sqs, self.mapping, invoke, window_seconds=0.3)
        thread = threading.Thread(target=poller.run, args=[stopping])
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()


@pytest.fixture
def source(emulator: Emulator) -> Source:
    return Source(emulator)


def test_the_function_gets_the_event_of_aws_and_an_answer_empties_the_queue(source: Source) -> None:
    events: list[Event] = []

    def handler(event: Event) -> None:
        events.append(event)

    source.send("one", "two")
    with source.polled(batch_call(handler)):
        wait_until(lambda: source.left() == 0)
    records = [record for event in events for record in event["Records"]]
    assert sorted(record["body"] for record in records) == ["one", "two"]
    for record in records:
        assert record["eventSource"] == "aws:sqs"
        assert record["eventSourceARN"] == source.arn
        assert record["attributes"]["ApproximateReceiveCount"] == "1"
        assert record["attributes"]["SentTimestamp"].isdigit()
        assert {"messageId", "receiptHandle", "md5OfBody", "messageAttributes", "awsRegion"} <= set(record)


def test_more_than_one_receive_is_gathered_into_a_batch_and_never_more_than_its_size(
    emulator: Emulator,
) -> None:
    source = Source(emulator, batch_size=25)
    sizes: list[int] = []
    source.send(*(str(number) for number in range(60)))
    with source.polled(batch_call(lambda event: sizes.append(len(event["Records"])))):
        wait_until(lambda: source.left() == 0)
    assert sum(sizes) == 60
    assert max(sizes) == 25


def test_a_reported_failure_comes_again_and_the_others_do_not(source: Source) -> None:
    seen: list[str] = []

    def handler(event: Event) -> Event:
        bodies = {record["messageId"]: record["body"] for record in event["Records"]}
        seen.extend(bodies.values())
        again = seen.count("bad") < 3
        failures = [name for name, body in bodies.items() if body == "bad" and again]
        return {"batchItemFailures": [{"itemIdentifier": name} for name in failures]}

    source.send("good", "bad")
    with source.polled(batch_call(handler)):
        wait_until(lambda: source.left() == 0)
    assert (seen.count("good"), seen.count("bad")) == (1, 3)


def test_an_exception_deletes_nothing(source: Source) -> None:
    calls: list[int] = []

    def handler(event: Event) -> None:
        calls.append(len(event["Records"]))
        if len(calls) < 3:
            raise FunctionError("thrown")

    source.send("one", "two")
    with source.polled(batch_call(handler)):
        wait_until(lambda: source.left() == 0)
    assert calls[:3] == [2, 2, 2]


@pytest.mark.parametrize(
    ("response", "failed"),
    [
        (None, set()),
        ({}, set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": None}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a"}),
        ({"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "unknown"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, {"a", "b"}),
        ({"batchItemFailures": [{}]}, {"a", "b"}),
    ],
)
def test_an_unknown_id_fails_the_whole_batch(response: Any, failed: set[str]) -> None:
    assert failed_ids(response, [{"MessageId": "a"}, {"MessageId": "b"}]) == failed


def test_a_disabled_mapping_is_not_polled_until_it_is_enabled_again(source: Source) -> None:
    seen: list[str] = []
    source.enabled = False
    source.send("one")
    with source.polled(batch_call(lambda event: seen.extend(record["body"] for record in event["Records"]))):
        wait_until(lambda: source.left() == 1)
        assert seen == []
        source.enabled = True
        wait_until(lambda: source.left() == 0)
    assert seen == ["one"]


def test_a_relayed_event_is_the_body_itself(source: Source) -> None:
    events: list[Event] = []
    source.send(json.dumps({"detail": {"object": {"key": "a"}}}))
    with source.polled(relay_call(events.append)):
        wait_until(lambda: source.left() == 0)
    assert events == [{"detail": {"object": {"key": "a"}}}]
