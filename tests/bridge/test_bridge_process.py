"""The bridge as a process, between a Pub/Sub server and SQS."""

from __future__ import annotations

import json
import socket

import pytest
from google.pubsub_v1.types import PubsubMessage

from lean_ops.ingestion import envelope
from tests.bridge.harness import World, eventually

pytestmark = pytest.mark.needs("go")


def message(text: str, key: str = "", **attributes: str) -> PubsubMessage:
    return PubsubMessage(data=text.encode(), ordering_key=key, attributes=attributes)


def test_a_message_arrives_with_its_text_and_identity(world: World) -> None:
    text = ' {"amount": 1.10, "note": "Zürich\\u00e9 \uffff", "amount": 1e400}\n'
    [message_id] = world.publish([message(text, idempotency_key="order-1", trace="not carried")])
    with world.bridge() as bridge, world.drain().running() as drain:
        eventually(lambda: drain.bodies != [], "the message is in SQS")
        assert bridge.stop() == 0
    [body] = drain.bodies
    parsed = envelope.parse(json.dumps(body), fallback_id="-", sent_time=2**62)
    assert isinstance(parsed, envelope.Envelope)
    assert (parsed.message_id, parsed.idempotency_key, parsed.payload_text) == (message_id, "order-1", text)
    assert not parsed.retimed, "the publish time is Pub/Sub's"


def test_probes_and_counters_follow_the_messages(world: World) -> None:
    with world.bridge() as bridge, world.drain().running() as drain:
        eventually(lambda: bridge.get("/readyz")[0] == 200, "ready")
        assert bridge.get("/healthz")[0] == 200
        world.publish([message("{}", key) for key in ("a", "a", "b", "")] + [PubsubMessage(data=b"\xff")])
        eventually(lambda: bridge.metric("acknowledged_total", world.topic) == 5, "all are acknowledged")
        counts = {
            name: bridge.metric(f"{name}_total", world.topic)
            for name in ("pulled", "sent", "given_back", "refused", "binary", "oversize", "failed_rounds")
        }
        assert counts == {
            "pulled": 5, "sent": 5, "given_back": 0, "refused": 0, "binary": 1, "oversize": 0, "failed_rounds": 0,
        }  # fmt: skip
        eventually(lambda: len(drain.bodies) == 5, "all are in SQS")


def test_a_graceful_stop_loses_nothing_doubles_nothing_and_delays_nothing(world: World) -> None:
    published = world.publish([message("{}", f"key-{number % 20}") for number in range(1000)])
    with world.drain().running() as drain:
        with world.bridge("--lease-seconds", "600") as first:
            eventually(lambda: first.metric("sent_total", world.topic) > 100, "it is in the middle")
            assert first.stop() == 0
        with world.bridge() as second:
            # Far within the lease: what the first one held, it gave back.
            eventually(lambda: len(drain.bodies) >= 1000, "every message is in SQS")
            assert second.metric("sent_total", world.topic) > 0, "the stop came too late to prove anything"
            assert second.stop() == 0
    assert sorted(drain.ids) == sorted(published)


def test_a_stop_does_not_wait_for_an_sqs_that_never_answers(world: World) -> None:
    world.publish([message("{}")])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with world.bridge("--lease-seconds", "600", AWS_ENDPOINT_URL=endpoint) as stuck:
            eventually(lambda: stuck.metric("outstanding_messages", world.topic) == 1, "it holds the message")
            assert stuck.stop() == 0
    with world.bridge(), world.drain().running() as drain:
        eventually(lambda: len(drain.bodies) == 1, "the message was given back, and is in SQS")


def test_a_queue_that_is_missing_is_named_and_its_messages_wait(world: World) -> None:
    world.sqs.delete_queue(QueueUrl=world.queue_url)
    world.publish([message("{}")])
    with world.bridge() as bridge:
        eventually(lambda: bridge.metric("failed_rounds_total", world.topic) >= 1, "a round has failed")
        status, content = bridge.get("/readyz")
        assert (status, json.loads(content)) == (503, {"faults": {world.topic: "1 of 1 messages given back"}})
        assert bridge.get("/healthz")[0] == 200, "a restart would not help"
        assert any("NonExistentQueue" in line for line in bridge.log)
        assert bridge.metric("acknowledged_total", world.topic) == 0
        assert bridge.stop() == 0


def test_a_topic_that_does_not_exist_is_one_line_and_exit_2(world: World) -> None:
    with world.bridge("--topics", "nosuch") as bridge:
        assert bridge.process.wait(30) == 2
    assert len(bridge.log) == 1
    assert "no topic 'nosuch'" in bridge.log[0]
