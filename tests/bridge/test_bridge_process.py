"""The bridge as a process, between a real Pub/Sub server and SQS."""

from __future__ import annotations

import json

import pytest
from google.pubsub_v1.types import PubsubMessage

from lean_ops import envelope
from tests.bridge.harness import World, eventually

pytestmark = pytest.mark.needs("go")

FAR = 2**62


def message(text: str, key: str = "", **attributes: str) -> PubsubMessage:
    return PubsubMessage(data=text.encode(), ordering_key=key, attributes=attributes)


def test_a_message_arrives_with_its_text_and_identity(world: World) -> None:
    text = ' {"amount": 1.10, "note": "Zürich\\u00e9 \uffff", "amount": 1e400}\n'
    [message_id] = world.publish([message(text, idempotency_key="order-1", trace="ignored")])
    with world.bridge() as bridge, world.drain().running() as drain:
        eventually(lambda: drain.bodies != [], "the message is in SQS")
        assert bridge.stop() == 0
    [body] = drain.bodies
    parsed = envelope.parse(json.dumps(body), fallback_id="-", sent_time=FAR)
    assert isinstance(parsed, envelope.Envelope)
    assert (parsed.message_id, parsed.idempotency_key) == (message_id, "order-1")
    assert parsed.payload_text == text
    assert body["publish_time"] == envelope.rfc3339(parsed.publish_time)
    assert not parsed.retimed
