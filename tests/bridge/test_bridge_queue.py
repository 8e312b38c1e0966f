"""Sending to an SQS that refuses entries, or to none at all."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from threading import Event
from typing import Any

import boto3
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from prometheus_client import REGISTRY
from werkzeug.test import run_wsgi_app

from bridge.envelope import Message
from bridge.queue import CONNECTION, PAUSES, SEND_SECONDS, TopicQueue
from lean_ops.naming import Names
from tests.bridge.harness import serving

WHEN = datetime(2026, 2, 6, 23, 59, tzinfo=UTC)


@dataclass
class RefusingSqs:
    """moto's SQS behind a door that refuses single entries, as AWS does when a part of it has trouble."""

    refusals: Counter[str] = field(default_factory=Counter)  # how often still, by message_id
    offered: list[list[str]] = field(default_factory=list)
    at_offer: Callable[[], None] = lambda: None
    app: Any = field(default_factory=lambda: DomainDispatcherApplication(create_backend_app))

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not environ.get("HTTP_X_AMZ_TARGET", "").endswith("SendMessageBatch"):
            return self.app(environ, start_response)
        request = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        ids = {entry["Id"]: json.loads(entry["MessageBody"])["message_id"] for entry in request["Entries"]}
        self.offered.append(list(ids.values()))
        self.at_offer()
        refused = [entry for entry, message_id in ids.items() if self._refuses(message_id)]
        request["Entries"] = [entry for entry in request["Entries"] if entry["Id"] not in refused]
        answer = self._forward(environ, request) if request["Entries"] else {}
        answer["Failed"] = [{"Id": id_, "Code": "InternalError", "SenderFault": False} for id_ in refused]
        content = json.dumps(answer).encode()
        start_response("200 OK", [("Content-Type", "application/x-amz-json-1.0")])
        return [content]

    def _refuses(self, message_id: str) -> bool:
        self.refusals[message_id] -= 1
        return self.refusals[message_id] >= 0

    def _forward(self, environ: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(request).encode()
        changed = {"wsgi.input": BytesIO(content), "CONTENT_LENGTH": str(len(content))}
        chunks, _, _ = run_wsgi_app(self.app, {**environ, **changed})
        return json.loads(b"".join(chunks))


@dataclass
class Stage:
    """A queue of one topic, and everything it talks to."""

    topic: str
    names: Names
    door: RefusingSqs
    sqs: Any
    s3: Any
    stopping: Event = field(default_factory=Event)
    clock: Callable[[], float] = time.monotonic

    def send(self, *messages: Message) -> set[str]:
        with ThreadPoolExecutor(4) as senders:
            queue = TopicQueue(
                self.topic,
                self.names,
                sqs=self.sqs,
                s3=self.s3,
                senders=senders,
                stopping=self.stopping,
                clock=self.clock,
            )
            return queue.send(messages)

    def bodies(self) -> list[dict[str, Any]]:
        url = self.sqs.get_queue_url(QueueName=self.names.queue(self.topic))["QueueUrl"]
        found: list[dict[str, Any]] = []
        while received := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [json.loads(message["Body"]) for message in received]
        return found

    def counted(self, name: str) -> float:
        return REGISTRY.get_sample_value(f"lean_ops_bridge_{name}_total", {"topic": self.topic}) or 0.0


@pytest.fixture
def stage() -> Iterator[Stage]:
    topic = f"t{uuid.uuid4().hex[:8]}"  # moto and the counters are shared by all tests of a process
    names = Names(topic, "123456789012", "us-east-1")
    door = RefusingSqs()
    with serving(door) as endpoint:
        session = boto3.session.Session("local", "local", region_name=names.region)
        sqs, s3 = (session.client(name, endpoint_url=endpoint, config=CONNECTION) for name in ("sqs", "s3"))
        sqs.create_queue(QueueName=names.queue(topic))
        s3.create_bucket(Bucket=names.ops_bucket)
        yield Stage(topic, names, door, sqs, s3)


def message(number: int, data: bytes = b"{}") -> Message:
    return Message(f"r{number}", f"m{number}", WHEN, data)


def test_only_refused_entries_are_sent_again(stage: Stage) -> None:
    stage.door.refusals = Counter({"m3": 1, "m12": 2})
    assert stage.send(*map(message, range(15))) == {f"r{n}" for n in range(15)}
    assert Counter(body["message_id"] for body in stage.bodies()) == Counter(f"m{n}" for n in range(15))
    assert stage.door.offered[2:] == [["m3", "m12"], ["m12"]]
    assert stage.counted("refused") == 3


def test_what_is_refused_to_the_end_is_not_confirmed(stage: Stage) -> None:
    stage.door.refusals = Counter({"m1": 100})
    assert stage.send(message(0), message(1), message(2)) == {"r0", "r2"}
    assert len(stage.door.offered) == len(PAUSES) + 1


def test_a_stop_lets_the_call_in_flight_end_and_starts_no_other(stage: Stage) -> None:
    stage.door.refusals = Counter({"m0": 100})
    stage.door.at_offer = stage.stopping.set
    assert stage.send(message(0), message(1)) == {"r1"}
    assert stage.send(message(2)) == set()
    assert stage.door.offered == [["m0", "m1"]]


def test_no_call_starts_when_the_time_to_send_is_over(stage: Stage) -> None:
    moments = itertools.chain([0.0, SEND_SECONDS - 1], itertools.repeat(SEND_SECONDS))
    stage.clock = lambda: next(moments)
    stage.door.refusals = Counter({"m0": 100})
    assert stage.send(message(0), message(1)) == {"r1"}
    assert len(stage.door.offered) == 1


def test_a_missing_queue_confirms_nothing_and_raises_nothing(stage: Stage) -> None:
    url = stage.sqs.get_queue_url(QueueName=stage.names.queue(stage.topic))["QueueUrl"]
    stage.sqs.delete_queue(QueueUrl=url)
    assert stage.send(message(0)) == set()


def test_large_messages_go_in_calls_of_their_own(stage: Stage) -> None:
    half = b"x" * 600_000
    assert stage.send(message(0, half), message(1, half), message(2)) == {"r0", "r1", "r2"}
    assert sorted(stage.door.offered) == [["m0"], ["m1", "m2"]]


def test_a_message_too_large_for_sqs_is_stored_and_sent_as_a_reference(stage: Stage) -> None:
    data = b'{"big": "' + b"x" * 1024 * 1024 + b'\xff"}'
    assert stage.send(message(0, data), message(1)) == {"r0", "r1"}
    bodies = {body["message_id"]: body for body in stage.bodies()}
    key = f"oversize/{stage.topic}/2026-02-06/m0"
    assert bodies["m0"] == {
        "message_id": "m0",
        "publish_time": "2026-02-06T23:59:00.000000Z",
        "oversize": {"address": f"s3://{stage.names.ops_bucket}/{key}", "bytes": len(data)},
    }
    assert stage.s3.get_object(Bucket=stage.names.ops_bucket, Key=key)["Body"].read() == data
    assert stage.counted("oversize") == 1


def test_an_oversize_message_that_cannot_be_stored_is_not_confirmed(stage: Stage) -> None:
    stage.s3.delete_bucket(Bucket=stage.names.ops_bucket)
    assert stage.send(message(0, b"x" * 2**20), message(1)) == {"r1"}
    assert stage.counted("oversize") == 0


def test_the_largest_message_that_sqs_takes_is_sent_whole(stage: Stage) -> None:
    overhead = len(
        json.dumps({"message_id": "m0", "publish_time": "2026-02-06T23:59:00.000000Z", "payload": ""})
    )
    fits, over = b"x" * (2**20 - overhead), b"x" * (2**20 - overhead + 1)
    assert stage.send(message(0, fits), message(1, over)) == {"r0", "r1"}
    assert {body["message_id"]: "payload" in body for body in stage.bodies()} == {"m0": True, "m1": False}


def test_data_that_is_not_utf8_is_sent_as_a_data_url_and_counted(stage: Stage) -> None:
    assert stage.send(message(0, b"\xff\x00")) == {"r0"}
    assert stage.bodies()[0]["payload"] == "data:application/octet-stream;base64,/wA="
    assert stage.counted("binary") == 1
