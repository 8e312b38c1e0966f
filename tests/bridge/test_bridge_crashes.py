"""A bridge that is killed in the middle of its work loses nothing and keeps the order within each key."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from threading import Event

import pytest
from google.pubsub_v1.types import PubsubMessage
from werkzeug.wrappers import Request, Response

from tests.bridge.harness import Drain, World, eventually, serving

pytestmark = pytest.mark.needs("go")

KEYS = 50
# The shortest lease that Pub/Sub knows: how long a killed bridge delays what it held.
LEASE = ("--lease-seconds", "10")


def stream(count: int) -> list[PubsubMessage]:
    """Messages over many keys, each numbered within its key."""
    return [
        PubsubMessage(
            data=json.dumps({"key": number % KEYS, "number": number // KEYS}).encode(),
            ordering_key=f"device-{number % KEYS}",
        )
        for number in range(count)
    ]


def check_order(drain: Drain) -> None:
    """Redeliveries apart, SQS got each key's messages in the order in which they were published."""
    payloads = [json.loads(body["payload"]) for body in drain.first_occurrences()]
    for key in range(KEYS):
        numbers = [payload["number"] for payload in payloads if payload["key"] == key]
        assert numbers == list(range(len(numbers)))


class Door:
    """Stands before SQS and lets no answer to a send through: the bridge waits, and can be killed there."""

    def __init__(self, endpoint: str, *, sends_pass: bool) -> None:
        self._address = endpoint.removeprefix("http://")
        self._sends_pass = sends_pass
        self.holding = Event()
        self.closed = Event()

    @Request.application
    def __call__(self, request: Request) -> Response:
        send = request.headers.get("X-Amz-Target", "").endswith("SendMessageBatch")
        answer = Response(status=503) if send and not self._sends_pass else self._forward(request)
        if send:
            self.holding.set()
            self.closed.wait()
        return answer

    def _forward(self, request: Request) -> Response:
        connection = HTTPConnection(self._address, timeout=10)
        connection.request(request.method, request.full_path, request.get_data(), dict(request.headers))
        answer = connection.getresponse()
        return Response(answer.read(), answer.status, content_type=answer.headers["Content-Type"])


@pytest.mark.parametrize(
    "sends_pass",
    [
        pytest.param(False, id="before SQS has them", marks=pytest.mark.faults),
        pytest.param(True, id="after SQS has them"),
    ],
)
def test_a_bridge_killed_with_messages_in_flight_loses_none(world: World, sends_pass: bool) -> None:
    published = world.publish(stream(200))
    door = Door(world.variables["AWS_ENDPOINT_URL"], sends_pass=sends_pass)
    with world.drain().running() as drain:
        with serving(door) as endpoint, world.bridge(*LEASE, AWS_ENDPOINT_URL=endpoint) as killed:
            assert door.holding.wait(30)
            killed.kill()
            door.closed.set()
        with world.bridge(*LEASE) as second:
            eventually(lambda: set(drain.ids) == set(published), "every message is in SQS")
            assert second.stop() == 0
    check_order(drain)
    doubles = len(drain.ids) - len(published)
    assert (doubles > 0) is sends_pass


@pytest.mark.faults
def test_a_bridge_killed_three_times_over_20_000_messages_loses_none(world: World) -> None:
    published = world.publish(stream(20_000))
    with world.drain().running() as drain:
        for _ in range(3):
            with world.bridge(*LEASE) as killed:
                eventually(lambda: killed.metric("sent_total", world.topic) > 5_000, "a quarter is sent", 200)
                killed.kill()
        with world.bridge(*LEASE) as last:
            eventually(lambda: set(drain.ids) == set(published), "every message is in SQS", 200)
            assert last.metric("sent_total", world.topic) > 0, "the kills came too late to prove anything"
            assert last.stop() == 0
    check_order(drain)
