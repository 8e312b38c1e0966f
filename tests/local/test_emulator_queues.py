"""SQS as consumers rely on it: visibility, delay, redrive, and speed that does not depend on depth."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.local.conftest import Emulator, wait_until


class Queue:
    """A queue with few words."""

    def __init__(self, emulator: Emulator, **attributes: str) -> None:
        self.sqs = emulator.client("sqs")
        name = f"q-{uuid.uuid4()}"
        self.url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    @property
    def arn(self) -> str:
        return str(self._attributes("QueueArn")["QueueArn"])

    def send(self, *bodies: str, delay: int = 0) -> None:
        for start in range(0, len(bodies), 10):
            entries = [
                {"Id": str(index), "MessageBody": body, "DelaySeconds": delay}
                for index, body in enumerate(bodies[start : start + 10])
            ]
            self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)

    def receive(self, count: int = 10, wait: int = 0, visibility: int = 30) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait,
            VisibilityTimeout=visibility,
            MessageSystemAttributeNames=["All"],
        )
        return list(answer.get("Messages", ()))

    def depths(self) -> tuple[int, int, int]:
        """Waiting, in flight, delayed."""
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        found = self._attributes(*names)
        return tuple(int(found[name]) for name in names)  # type: ignore[return-value]

    def _attributes(self, *names: str) -> dict[str, str]:
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=list(names))
        return dict(found["Attributes"])


@pytest.fixture
def queue(emulator: Emulator) -> Queue:
    return Queue(emulator)


def test_a_received_message_is_hidden_until_its_time_is_over(queue: Queue) -> None:
    queue.send("a")
    (first,) = queue.receive(visibility=1)
    assert queue.receive() == []
    assert queue.depths() == (0, 1, 0)
    (again,) = wait_until(queue.receive)
    assert again["MessageId"] == first["MessageId"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"


def test_an_old_receipt_still_deletes_and_deleting_twice_is_fine(queue: Queue) -> None:
    queue.send("a")
    (first,) = queue.receive(visibility=0)
    queue.receive()
    for _ in range(2):
        queue.sqs.delete_message(QueueUrl=queue.url, ReceiptHandle=first["ReceiptHandle"])
    assert queue.depths() == (0, 0, 0)


def test_a_message_received_without_hiding_is_received_once_per_call(queue: Queue) -> None:
    queue.send("a", "b")
    assert sorted(message["Body"] for message in queue.receive(visibility=0)) == ["a", "b"]


def test_visibility_can_be_taken_back(queue: Queue) -> None:
    queue.send("a")
    (message,) = queue.receive()
    queue.sqs.change_message_visibility(
        QueueUrl=queue.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
    )
    assert len(queue.receive()) == 1


def test_a_delayed_message_comes_later_and_wakes_a_waiting_receiver(queue: Queue) -> None:
    queue.send("a", delay=1)
    assert queue.depths() == (0, 0, 1)
    assert [message["Body"] for message in queue.receive(wait=10)] == ["a"]


def test_a_waiting_receiver_is_woken_by_a_message(queue: Queue) -> None:
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(queue.receive, wait=20)
        queue.send("a")
        assert len(waiting.result()) == 1
        assert time.monotonic() - began < 10


def test_after_its_receives_a_message_moves_to_the_dead_letter_queue_as_it_is(emulator: Emulator) -> None:
    dead = Queue(emulator)
    policy = {"deadLetterTargetArn": dead.arn, "maxReceiveCount": 5}
    queue = Queue(emulator, RedrivePolicy=json.dumps(policy))
    queue.send("a")
    received = [queue.receive(visibility=0) for _ in range(5)]
    assert all(len(messages) == 1 for messages in received)
    assert queue.receive() == []
    (moved,) = dead.receive()
    assert moved["MessageId"] == received[0][0]["MessageId"]
    assert moved["Attributes"]["SentTimestamp"] == received[0][0]["Attributes"]["SentTimestamp"]


def test_an_enabled_mapping_takes_nothing_out_of_the_queue(emulator: Emulator) -> None:
    queue = Queue(emulator)
    iam, aws_lambda = emulator.client("iam"), emulator.client("lambda")
    name = f"f-{uuid.uuid4()}"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    aws_lambda.create_function(
        FunctionName=name, Role=role, Runtime="python3.12", Handler="a.b", Code={"ZipFile": b""}
    )
    aws_lambda.create_event_source_mapping(EventSourceArn=queue.arn, FunctionName=name)
    queue.send("a")
    (message,) = queue.receive()
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_receive_takes_as_long_in_a_deep_queue_as_in_a_shallow_one(emulator: Emulator) -> None:
    def cost(depth: int) -> float:
        queue = Queue(emulator)
        queue.send(*(f"body {number}" for number in range(depth)))
        times = []
        for _ in range(10):
            began = time.perf_counter()
            assert len(queue.receive(count=1)) == 1
            times.append(time.perf_counter() - began)
        return min(times)

    assert cost(3_000) < 4 * cost(10)
