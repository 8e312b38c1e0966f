"""The processor, run as Lambda runs it: SQS events in, Firehose records and partial batch failures out."""

from __future__ import annotations

import json
import time
from itertools import count
from typing import Any

import pytest

from lean_ops.ingestion.envelope import Code
from lean_ops.ingestion.intake import Delivery, process
from lean_ops.resources import DELIVERY, IDEMPOTENCY_SECONDS, QUEUES
from tests.lambdas.world import TOPIC, World, body, stumble_over

SENT = 1_794_996_000_000_000
NOW = SENT / 1e6
ids = count()


def delivery(text: str, sqs_id: str | None = None, receives: int = 1) -> Delivery:
    return Delivery(sqs_id or f"sqs-{next(ids)}", text, SENT, receives)


def totals(world: World) -> dict[str, int]:
    return world.ports.books.totals(TOPIC)  # type: ignore[attr-defined, no-any-return]


def test_a_message_reaches_firehose_as_a_row_of_raw(world: World) -> None:
    world.send(
        '{"message_id": "m1", "publish_time": "2026-11-18T08:00:00Z", "idempotency_key": "k", "payload": {"a":  1.10}}'
    )
    before = int(time.time() * 1000)
    assert world.process() == {"batchItemFailures": []}
    [row] = world.firehose.rows
    assert (row.message_id, row.topic_name, row.idempotency_key) == ("m1", TOPIC, "k")
    assert (row.publish_time, row.json_payload) == (1_794_988_800_000_000, '{"a":  1.10}')
    assert before <= row.ingestion_ts <= int(time.time() * 1000)
    assert world.waiting("lo-orders") == []


def test_five_hundred_messages_take_at_most_thirty_dynamodb_calls_and_two_firehose_calls(
    world: World,
) -> None:
    world.send(*(body(f"m{number}", {"filler": "x" * 1000}) for number in range(500)))
    world.process()
    assert len(world.firehose.message_ids) == 500
    assert world.calls.count("dynamodb") <= 30
    assert 1 <= world.calls.count("firehose") <= 2


def test_records_are_put_within_the_limits_of_a_call(world: World) -> None:
    payload = "x" * 700_000
    result = process(TOPIC, [delivery(body(f"m{n}", payload)) for n in range(12)], world.ports, NOW)
    assert result.tally.accepted == 12
    assert world.calls.count("firehose") == 3


@pytest.mark.parametrize("payload", ["no JSON {", "", "null", '{"cut": '])
def test_a_payload_that_is_not_json_lands_in_raw(world: World, payload: str) -> None:
    world.send(body("m1", payload))
    world.process()
    assert [row.json_payload for row in world.firehose.rows] == [payload]


def test_what_the_envelope_lacks_comes_from_sqs_and_is_counted(world: World) -> None:
    result = process(
        TOPIC,
        [delivery('{"payload": {}, "publish_time": "1970-01-01T00:00:00Z"}', "sqs-9")],
        world.ports,
        NOW,
    )
    [row] = world.firehose.rows
    assert (row.message_id, row.publish_time) == ("sqs-9", SENT)
    assert result.tally.retimed == 1
    assert totals(world)["retimed"] == 1


# -- bad input: where it ends, and that it is counted ------------------------------------------------------

TOO_LARGE = '{"payload": "' + '\\"' * (DELIVERY.max_record_bytes // 2) + '"}'
BROKEN = {
    Code.EMPTY_BODY: " ",
    Code.NOT_JSON: "hello",
    Code.WRONG_SHAPE: "[]",
    Code.NOT_UTF8: '{"payload": "\ud800"}',
    Code.TOO_LARGE: TOO_LARGE,
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_envelope_fails_alone_and_is_counted(world: World, code: Code) -> None:
    good, bad = delivery(body("good")), delivery(BROKEN[code])
    result = process(TOPIC, [bad, good], world.ports, NOW)
    assert result.failed == (bad.sqs_id,)
    assert (result.tally.rejected, result.tally.accepted, dict(result.reasons)) == (1, 1, {code: 1})
    assert world.firehose.message_ids == {"good"}


def test_a_body_that_finds_a_fault_of_ours_fails_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stumble_over(monkeypatch, "unforeseen")
    good, bad = delivery(body("good")), delivery(body("unforeseen"))
    result = process(TOPIC, [bad, good], world.ports, NOW)
    assert (result.failed, dict(result.reasons)) == ((bad.sqs_id,), {Code.UNFORESEEN: 1})
    assert world.firehose.message_ids == {"good"}


def test_a_batch_where_all_are_broken_fails_whole_and_asks_nothing_of_anybody(world: World) -> None:
    result = process(TOPIC, [delivery("x"), delivery("y")], world.ports, NOW)
    assert len(result.failed) == 2
    assert world.calls.made == []


def test_a_message_from_a_queue_of_no_topic_is_reported_as_failed(world: World) -> None:
    result = process(None, [delivery(body("m1"))], world.ports, NOW)
    assert len(result.failed) == 1
    assert dict(result.reasons) == {Code.UNKNOWN_TOPIC: 1}


def test_broken_envelopes_do_not_open_the_breaker(world: World) -> None:
    """They fail the same way at every attempt: waiting would not mend them."""
    process(TOPIC, [delivery("x") for _ in range(200)] + [delivery(body("good"))], world.ports, NOW)
    assert world.ports.books.read(TOPIC).polls


# -- duplicates --------------------------------------------------------------------------------------------


def test_duplicates_within_a_batch_are_put_once_and_counted(world: World) -> None:
    result = process(
        TOPIC, [delivery(body("m1")), delivery(body("m1")), delivery(body("m2"))], world.ports, NOW
    )
    assert result.failed == ()
    assert (result.tally.accepted, result.tally.suppressed) == (2, 1)
    assert len(world.firehose.accepted) == 2
    assert totals(world) | {"received": 3, "suppressed": 1} == totals(world)


def test_a_duplicate_within_24_hours_is_suppressed_and_a_later_one_is_not(world: World) -> None:
    """DynamoDB deletes expired items late: the item is still there, and no longer counts."""
    first, soon, late = (delivery(body("m1")) for _ in range(3))
    process(TOPIC, [first], world.ports, NOW)
    assert process(TOPIC, [soon], world.ports, NOW + IDEMPOTENCY_SECONDS - 1).tally.suppressed == 1
    assert process(TOPIC, [late], world.ports, NOW + IDEMPOTENCY_SECONDS + 1).tally.accepted == 1
    assert len(world.firehose.accepted) == 2


def test_a_correction_that_shares_the_business_key_is_no_duplicate(world: World) -> None:
    corrections = [delivery(body(f"m{n}", idempotency_key="order-1")) for n in range(3)]
    assert process(TOPIC, corrections, world.ports, NOW).tally.accepted == 3


def test_the_same_id_published_at_another_time_or_in_another_topic_is_another_message(world: World) -> None:
    again = body("m1", publish_time="2026-11-18T08:00:00.123457Z")
    assert process(TOPIC, [delivery(body("m1")), delivery(again)], world.ports, NOW).tally.accepted == 2
    assert process("payments", [delivery(body("m1"))], world.ports, NOW).tally.accepted == 1


def test_the_same_identity_with_another_payload_is_suppressed_and_counted_apart(world: World) -> None:
    process(TOPIC, [delivery(body("m1"))], world.ports, NOW)
    result = process(TOPIC, [delivery(body("m1", {"n": 2})), delivery(body("m1"))], world.ports, NOW)
    assert (result.tally.suppressed, result.tally.conflicting) == (2, 1)


def test_an_sqs_redelivery_of_a_delivered_message_is_no_duplicate_of_the_source(world: World) -> None:
    again = delivery(body("m1"))
    for _ in range(2):
        result = process(TOPIC, [again], world.ports, NOW)
    assert (result.tally.redelivered, result.tally.suppressed, result.failed) == (1, 0, ())
    assert totals(world)["received"] == 1
    assert len(world.firehose.accepted) == 1


# -- dependencies that fail --------------------------------------------------------------------------------


def test_only_the_refused_entries_are_put_again(world: World) -> None:
    refusals = iter(["ServiceUnavailableException"] * 3)
    world.firehose.verdict = lambda _: next(refusals, None)
    result = process(TOPIC, [delivery(body(f"m{n}")) for n in range(10)], world.ports, NOW)
    assert (result.tally.accepted, result.failed) == (10, ())
    assert sorted(world.firehose.message_ids) == sorted(f"m{n}" for n in range(10))
    assert len(world.firehose.accepted) == 10
    assert world.calls.count("firehose") == 2
    assert len(world.pauses) == 1


def test_what_firehose_keeps_refusing_fails_alone_and_is_not_remembered(world: World) -> None:
    world.firehose.verdict = lambda data: "ServiceUnavailableException" if b'"m3"' in data else None
    batch = [delivery(body(f"m{n}")) for n in range(5)]
    result = process(TOPIC, batch, world.ports, NOW)
    assert result.failed == (batch[3].sqs_id,)
    assert dict(result.reasons) == {"ServiceUnavailableException": 1}
    assert world.pauses == sorted(world.pauses)
    world.firehose.verdict = lambda _: None
    assert process(TOPIC, [batch[3]], world.ports, NOW).tally.accepted == 1


def test_a_duplicate_of_a_refused_message_is_refused_with_it(world: World) -> None:
    world.firehose.verdict = lambda _: "InternalFailure"
    result = process(TOPIC, [delivery(body("m1")), delivery(body("m1"))], world.ports, NOW)
    assert (result.tally.refused, len(result.failed)) == (2, 2)


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchWriteItem", "UpdateItem", "GetItem"])
def test_a_throttled_dynamodb_is_waited_for(world: World, operation: str) -> None:
    refusals = iter([True, True])
    world.calls.refuse = lambda name: (
        "ProvisionedThroughputExceededException"
        if name.endswith(operation) and next(refusals, False)
        else None
    )
    result = process(TOPIC, [delivery(body("m1"))], world.ports, NOW)
    assert (result.tally.accepted, result.failed) == (1, ())
    assert len(world.pauses) == 2
    assert totals(world)["received"] == 1


def test_without_dynamodb_nothing_is_put_and_all_comes_again(world: World) -> None:
    world.calls.refuse = lambda name: "ThrottlingException" if name.startswith("dynamodb") else None
    result = process(TOPIC, [delivery(body("m1"))], world.ports, NOW)
    assert len(result.failed) == 1
    assert world.firehose.accepted == []


def test_a_message_that_is_delivered_but_cannot_be_remembered_is_not_failed(world: World) -> None:
    """Failing it would make a duplicate for certain; forgetting it only may."""
    world.calls.refuse = lambda name: "ThrottlingException" if "BatchWrite" in name else None
    result = process(TOPIC, [delivery(body("m1"))], world.ports, NOW)
    assert (result.tally.accepted, result.tally.unremembered, result.failed) == (1, 1, ())


def test_a_batch_that_the_books_did_not_take_is_not_failed_but_told(
    world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    world.calls.refuse = lambda name: "InternalServerError" if name.endswith("UpdateItem") else None
    world.send(body("m1"), body("m1"), body("m2"))
    assert world.process() == {"batchItemFailures": []}
    assert json.loads(capsys.readouterr().out)["uncounted"] == [3.0]
    assert [vars(each)["count"] for each in caplog.records if "books" in each.message] == [3]


@pytest.mark.parametrize(
    ("operation", "entries", "left"),
    [("BatchGetItem", "Keys", "UnprocessedKeys"), ("BatchWriteItem", None, "UnprocessedItems")],
)
def test_what_dynamodb_left_unprocessed_is_asked_for_again(
    world: World, operation: str, entries: str | None, left: str
) -> None:
    """The emulator processes every entry, so half of each request is held back from it here."""
    held: list[dict[str, Any]] = []

    def hold_back(name: str, params: dict[str, Any]) -> None:
        if name.endswith(operation):
            request = json.loads(params["body"])
            [(table, wanted)] = request["RequestItems"].items()
            listed = wanted[entries] if entries else wanted
            rest = listed[len(listed) // 2 + 1 :]
            del listed[len(listed) // 2 + 1 :]
            params["body"] = json.dumps(request).encode()
            held.append({table: {entries: rest} if entries else rest} if rest else {})

    def give_back(name: str, parsed: dict[str, Any]) -> None:
        if name.endswith(operation):
            parsed[left] = held.pop()

    batch = [body(f"m{n}") for n in range(60)]
    process(TOPIC, [delivery(text) for text in batch[:30]], world.ports, NOW)
    world.calls.edit_request, world.calls.edit_answer = hold_back, give_back
    first, second = (process(TOPIC, [delivery(text) for text in batch], world.ports, NOW) for _ in range(2))
    assert (first.tally.accepted, first.tally.suppressed) == (30, 30)
    assert second.tally.suppressed == 60


# -- the handler itself ------------------------------------------------------------------------------------


def test_logs_and_metrics_hold_counts_and_codes_but_nothing_of_a_message(
    world: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    world.send(body("personal-id", {"name": "personal"}, idempotency_key="personal-key"), "personal broken {")
    world.process()
    [logged] = [vars(record) for record in caplog.records if record.name == "sqs_processor"]
    assert (logged["topic"], logged["reasons"]) == (TOPIC, {"NOT_JSON": 1})
    [metrics] = capsys.readouterr().out.splitlines()
    emf = json.loads(metrics)
    assert (emf["topic"], emf["accepted"], emf["rejected"]) == (TOPIC, [1.0], [1.0])
    assert "personal" not in f"{logged}{metrics}"


def test_a_failing_message_reaches_the_dead_letter_queue_by_its_receives(world: World) -> None:
    world.send("broken {", body("good"))
    world.exhaust_receives()
    assert [message.body for message in world.waiting("lo-orders-dlq")] == ["broken {"]
    assert world.waiting("lo-orders") == []


def test_a_batch_without_time_left_delivers_nothing_and_still_parks_at_the_last_receive(world: World) -> None:
    world.send(body("m1"))
    world.seconds_left = 20
    for _ in range(QUEUES.max_receives):
        world.time_passes()
        world.process()
    assert world.firehose.accepted == []
    assert len(world.waiting("lo-orders")) == 1
    world.exhaust_receives()
    assert world.waiting("lo-orders-dlq") == []
