"""The processor, run as Lambda runs it: SQS events in, partial batch failures out."""

from __future__ import annotations

from tests.lambdas.world import World, body


def test_five_hundred_messages_take_at_most_thirty_dynamodb_calls_and_two_firehose_calls(world: World) -> None:
    world.send(*(body(f"m{number}", {"filler": "x" * 1000}) for number in range(500)))
    world.process()
    assert len(world.firehose.message_ids) == 500
    assert world.calls.count("dynamodb") <= 30
    assert world.calls.count("firehose") <= 2
