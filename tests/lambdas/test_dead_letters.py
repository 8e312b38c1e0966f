"""Dead letters: rows with a reason, an archive, and a way back to RAW that doubles nothing."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from lambdas.dlq_drainer import handler as drainer
from lean_ops.aws import error_tables, raw_tables, recovery
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.aws.recovery import ReplayResult
from lean_ops.ingestion import dead_letters as letters
from lean_ops.ingestion.attempts import IN_FLIGHT_MICROS, Standing
from lean_ops.ingestion.envelope import Code
from lean_ops.ingestion.intake import Delivery
from lean_ops.resources import DELIVERY
from tests.lambdas.world import TOPIC, World, body, stumble_over

SOUND, BROKEN = body("m1", idempotency_key="k"), "broken {"
HOUR = IN_FLIGHT_MICROS / 1e6


def dead_letters(world: World, *bodies: str, topic: str = TOPIC) -> None:
    """Messages that no attempt could take, wherever they were on their way."""
    url = world.aws.sqs.get_queue_url(QueueName=world.runtime.names.dead_letter_queue(topic))["QueueUrl"]
    for text in bodies:
        world.aws.sqs.send_message(QueueUrl=url, MessageBody=text)


def rows(world: World) -> list[dict[str, Any]]:
    table = world.catalog.load_table(("iceberg_raw_db", "dlq_errors"))
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["record_id"], row["attempt"]))


def archives(world: World) -> dict[str, list[dict[str, Any]]]:
    bucket = world.runtime.names.ops_bucket
    listed = world.aws.s3.list_objects_v2(Bucket=bucket, Prefix="dlq-archive/").get("Contents", [])
    found = {
        each["Key"]: world.aws.s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in listed
    }
    return {key: [json.loads(line) for line in text.splitlines()] for key, text in found.items()}


def standings(world: World) -> dict[str, Standing]:
    return {each.identity.message_id: each for each in world.dlq_errors.standings(TOPIC)}


def replay(world: World, now: float | None = None, **options: Any) -> ReplayResult:
    moment = time.time() if now is None else now
    hatch = recovery.dlq_hatch(world.dlq_errors, world.ports.queue, TOPIC, moment)
    return recovery.replay(hatch, TOPIC, moment, **options)


# -- draining ----------------------------------------------------------------------------------------------


def test_a_batch_becomes_rows_with_reasons_and_one_archive_object(world: World) -> None:
    dead_letters(world, SOUND, BROKEN)
    assert world.drain() == {"batchItemFailures": []}
    assert world.waiting("lo-orders-dlq") == []
    by_code = {row["error_code"]: row for row in rows(world)}
    assert set(by_code) == {Code.RECEIVES_EXHAUSTED, Code.NOT_JSON}
    sound = by_code[Code.RECEIVES_EXHAUSTED]
    assert (sound["message_id"], sound["attempt"], sound["status"]) == ("m1", 1, "open")
    [(key, lines)] = archives(world).items()
    assert {row["archive_key"] for row in rows(world)} == {key}
    assert {line["body"] for line in lines} == {SOUND, BROKEN}
    assert {line["error_code"] for line in lines} == set(by_code)


def test_the_reason_is_the_one_the_processor_had(world: World) -> None:
    too_large = body("big", '"' * (DELIVERY.max_record_bytes // 2))
    world.send(BROKEN, "[]", '{"payload": 1}', too_large, body("good"))
    world.exhaust_receives()
    world.drain()
    codes = {row["error_code"] for row in rows(world)}
    assert codes == {Code.NOT_JSON, Code.WRONG_SHAPE, Code.TOO_LARGE}
    assert "big" in {row["message_id"] for row in rows(world)}, "what has an envelope keeps its identity"
    assert len(rows(world)) == 4


def test_a_missing_identity_is_resolved_as_the_processor_would_and_written_down(world: World) -> None:
    dead_letters(world, '{"payload": {"a":  1.10}, "publish_time": "soon"}')
    [message] = world.waiting("lo-orders-dlq")
    world.drain()
    [row] = rows(world)
    kept = json.loads(row["body"])
    assert row["message_id"] == kept["message_id"] == message.id
    assert int(row["publish_time"].timestamp() * 1000) == int(message.sent_timestamp)
    assert '"payload":{"a":  1.10}' in row["body"]


def test_a_body_that_is_no_legal_text_is_kept_in_the_archive_as_it_came(world: World) -> None:
    event = {
        "Records": [
            {
                "messageId": "sqs-1",
                "body": "\ud800",
                "attributes": {"SentTimestamp": "1794996000000", "ApproximateReceiveCount": "6"},
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:lo-orders-dlq",
            }
        ]
    }
    drainer.handler(event, None)
    [row] = rows(world)
    assert (row["error_code"], row["body"]) == (Code.NOT_UTF8, "\\ud800")
    [[line]] = archives(world).values()
    assert line["body"] == "\ud800"


def test_a_body_that_finds_a_fault_of_ours_is_kept_as_it_came_and_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stumble_over(monkeypatch, "unforeseen")
    dead_letters(world, SOUND, body("unforeseen"))
    assert world.drain() == {"batchItemFailures": []}
    kept = {row["error_code"]: row["body"] for row in rows(world)}
    assert set(kept) == {Code.RECEIVES_EXHAUSTED, Code.UNFORESEEN}
    assert kept[Code.UNFORESEEN] == body("unforeseen")


def test_a_message_of_no_topic_is_kept_under_no_topic(world: World) -> None:
    world.aws.sqs.create_queue(QueueName="stray")
    world.aws.sqs.send_message(QueueUrl="stray", MessageBody=SOUND)
    world.poll(drainer.handler, "stray")
    [row] = rows(world)
    assert (row["topic_name"], row["error_code"]) == ("(none)", Code.UNKNOWN_TOPIC)


def test_draining_the_same_messages_again_adds_nothing(world: World) -> None:
    dead_letters(world, SOUND, BROKEN)
    events: list[Any] = []
    world.poll(lambda event, _: events.append(event) or {"batchItemFailures": []}, "lo-orders-dlq")
    [event] = events
    for _ in range(3):
        drainer.handler(event, None)
    other_cut = {"Records": event["Records"][:1]}
    drainer.handler(other_cut, None)
    assert [row["attempt"] for row in rows(world)] == [1, 1]


def test_when_the_archive_cannot_be_written_the_messages_stay(world: World) -> None:
    dead_letters(world, SOUND)
    world.calls.refuse = lambda name: "AccessDenied" if name == "s3.PutObject" else None
    answer = world.drain()
    assert answer is not None
    assert len(answer["batchItemFailures"]) == len(world.waiting("lo-orders-dlq")) == 1
    assert rows(world) == []


def test_writers_at_once_lose_no_row_and_add_none_twice(world: World) -> None:
    """Eight drainers on four batches, each batch drained by two of them."""
    dead_letters(world, "make the table")
    world.drain()
    batches = [
        [Delivery(f"sqs-{batch}-{n}", body(f"m{batch}-{n}"), 1_794_996_000_000_000, 6) for n in range(5)]
        for batch in range(4)
    ]

    def drain(batch: list[Delivery]) -> int:
        errors = error_tables.dlq_errors(world.catalog)
        return len(errors.append(letters.attempts(TOPIC, batch, 1_794_996_000.0)))

    with ThreadPoolExecutor(8) as pool:
        appended = sum(pool.map(drain, [*batches, *batches]))
    assert appended == 20
    assert len(rows(world)) == 21


# -- replay ------------------------------------------------------------------------------------------------


def test_a_replayed_message_reaches_raw_once_and_its_row_is_resolved(world: World) -> None:
    dead_letters(world, SOUND)
    world.drain()
    assert replay(world).sent == 1
    assert standings(world)["m1"].status == "replayed"
    world.process()
    world.land()
    assert recovery.settle(world.dlq_errors, TOPIC, time.time_ns() // 1000) == 1
    assert standings(world)["m1"].status == "resolved"
    assert [row["status"] for row in rows(world)] == ["open", "replayed", "resolved"]
    assert replay(world).counts == {}
    assert recovery.settle(world.dlq_errors, TOPIC, time.time_ns() // 1000) == 0


def test_a_message_replayed_twice_is_sent_once(world: World) -> None:
    dead_letters(world, SOUND)
    world.drain()
    first, second = replay(world), replay(world)
    assert (first.sent, second.sent, second.in_flight) == (1, 0, 1)
    assert len(world.waiting("lo-orders")) == 1


def test_two_replays_at_once_send_a_message_once(world: World) -> None:
    dead_letters(world, *(body(f"m{n}") for n in range(10)))
    world.drain()
    moment = time.time()

    def run(_: int) -> int:
        hatch = recovery.dlq_hatch(error_tables.dlq_errors(world.catalog), world.ports.queue, TOPIC, moment)
        return recovery.replay(hatch, TOPIC, moment).sent

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4))) == 10
    assert len(world.waiting("lo-orders")) == 10


def test_a_replay_that_died_before_sending_can_be_repeated_after_an_hour(world: World) -> None:
    dead_letters(world, SOUND)
    world.drain()
    hatch = recovery.dlq_hatch(world.dlq_errors, world.ports.queue, TOPIC, 0)
    claim = standings(world)["m1"].answered("replayed", time.time_ns() // 1000, "and then it died")
    hatch.errors.append([claim])
    assert replay(world).sent == 0
    assert replay(world, time.time() + HOUR + 1).sent == 1


def test_a_replay_that_fails_again_is_open_again(world: World) -> None:
    dead_letters(world, SOUND)
    world.drain()
    replay(world)
    [text] = [message.body for message in world.waiting("lo-orders")]
    dead_letters(world, text)
    world.drain()
    standing = standings(world)["m1"]
    assert (standing.attempt, standing.status) == (3, "open")
    assert replay(world).sent == 1


def test_what_still_has_no_envelope_is_counted_and_not_sent(world: World) -> None:
    dead_letters(world, SOUND, BROKEN)
    world.drain()
    result = replay(world)
    assert (result.sent, result.still_broken) == (1, {Code.NOT_JSON: 1})
    assert len(world.waiting("lo-orders")) == 1


def test_a_dry_run_counts_and_changes_nothing(world: World) -> None:
    dead_letters(world, SOUND, BROKEN)
    world.drain()
    before = rows(world)
    result = replay(world, dry_run=True)
    assert (result.counts, result.sent) == ({Code.NOT_JSON: 1, Code.RECEIVES_EXHAUSTED: 1}, 0)
    assert rows(world) == before
    assert world.waiting("lo-orders") == []


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"code": Code.RECEIVES_EXHAUSTED}, 1),
        ({"code": Code.NOT_JSON}, 0),
        ({"since": 0}, 1),
        ({"since": 2**60}, 0),
    ],
)
def test_a_replay_is_limited_to_a_code_and_a_time(world: World, options: dict[str, Any], sent: int) -> None:
    dead_letters(world, SOUND, BROKEN)
    world.drain()
    assert replay(world, **options).sent == sent


def test_counts_are_known_before_anything_is_sent(world: World) -> None:
    dead_letters(world, SOUND)
    world.drain()
    seen: list[tuple[dict[str, int], int]] = []
    replay(world, on_plan=lambda plan: seen.append((plan.counts, len(world.waiting("lo-orders")))))
    assert seen == [({Code.RECEIVES_EXHAUSTED: 1}, 0)]


def test_a_message_that_is_in_raw_already_is_resolved_instead_of_sent(world: World) -> None:
    """Its process died after Firehose had it, again and again."""
    world.send(SOUND)
    world.process()
    world.land()
    dead_letters(world, SOUND)
    world.drain()
    result = replay(world)
    assert (result.resolved, result.sent) == (1, 0)


def test_raw_is_asked_by_identity_not_by_id_alone(world: World) -> None:
    world.send(SOUND)
    world.process()
    world.land()
    dead_letters(world, body("m1", publish_time="2026-11-18T08:00:00.123457Z"))
    world.drain()
    [standing] = world.dlq_errors.standings(TOPIC)
    assert raw_tables.arrived(world.catalog, TOPIC, [standing.identity]) == set()


def test_a_contended_table_is_tried_many_times(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letters(world, "make the table")
    world.drain()
    refusals, pauses = iter(range(20)), list[float]()
    append = Table.append

    def contended(self: Table, *arguments: Any) -> None:
        if next(refusals, None) is not None:
            raise CommitFailedException("another writer was faster")
        append(self, *arguments)

    monkeypatch.setattr(Table, "append", contended)
    [standing] = world.dlq_errors.standings(TOPIC)
    errors = ErrorTable(world.catalog, world.dlq_errors.spec, "dlq", "body", pauses.append)
    assert len(errors.append([standing.answered("replayed", 1, "")])) == 1
    assert len(pauses) == 20
