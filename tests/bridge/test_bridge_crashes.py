"""A bridge that is killed in the middle of its work loses nothing and keeps the order within each key."""

from __future__ import annotations

import functools
import itertools
import json
import operator
from collections.abc import Sequence

import pytest
from google.pubsub_v1.types import PubsubMessage

from tests.bridge.harness import Bridge, World, eventually

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


def is_busy(bridge: Bridge, topic: str, sent: int) -> bool:
    holding = bridge.metric("outstanding_messages", topic) > 0
    return holding and bridge.metric("sent_total", topic) >= sent


def check_no_loss(world: World, count: int, kill_at: Sequence[int]) -> None:
    published = world.publish(stream(count))
    with world.drain().running() as drain:
        for sent in itertools.starmap(operator.sub, zip(kill_at, (0, *kill_at), strict=False)):
            with world.bridge(*LEASE) as bridge:
                eventually(functools.partial(is_busy, bridge, world.topic, sent), "it is in the middle", 200)
                bridge.kill()
        with world.bridge(*LEASE) as last:
            eventually(lambda: len(set(drain.ids)) == count, "every message is in SQS", 200)
            assert last.metric("sent_total", world.topic) > 0, "the kill came too late to prove anything"
            assert last.stop() == 0

    assert set(drain.ids) == set(published)
    payloads = [json.loads(body["payload"]) for body in drain.first_occurrences()]
    payloads.sort(key=lambda payload: payload["key"])
    for _, of_key in itertools.groupby(payloads, key=lambda payload: payload["key"]):
        numbers = [payload["number"] for payload in of_key]
        assert numbers == sorted(numbers)


def test_a_killed_bridge_loses_nothing(world: World) -> None:
    check_no_loss(world, 1_000, kill_at=[300])


@pytest.mark.faults
def test_a_bridge_killed_three_times_over_20_000_messages_loses_nothing(world: World) -> None:
    check_no_loss(world, 20_000, kill_at=[5_000, 10_000, 15_000])
