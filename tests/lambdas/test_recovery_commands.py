"""`lean-ops dlq` and `lean-ops firehose`, as they are typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lean_ops.aws import sending
from lean_ops.cli import app
from lean_ops.errors import NotFoundError, UsageError
from lean_ops.ingestion import raw_record
from lean_ops.ingestion.raw_record import RawRecord
from tests.lambdas.world import ENVIRONMENT, TOPIC, World, body, error_line

SOUND, BROKEN = body("m1"), "broken {"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the test's environment and one topic."""
    root = tmp_path / "repository"
    (root / "topics").mkdir(parents=True)
    (root / "environments").mkdir()
    (root / "topics" / f"{TOPIC}.yaml").write_text(f"topic: {TOPIC}\nowner: team\ndescription: Orders.\n")
    (root / "environments" / "test.yaml").write_text(ENVIRONMENT.model_dump_json(exclude_none=True))
    return root


def run(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--root", str(root), "--env", "test"])


def dead_letters(world: World, *bodies: str) -> None:
    url = world.aws.sqs.get_queue_url(QueueName=world.runtime.names.dead_letter_queue(TOPIC))["QueueUrl"]
    for text in bodies:
        world.aws.sqs.send_message(QueueUrl=url, MessageBody=text)
    world.drain()


def test_a_replay_says_the_counts_first_and_then_what_it_did(world: World, root: Path) -> None:
    dead_letters(world, SOUND, BROKEN)
    result = run(root, "dlq", "replay", "--topic", TOPIC)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "to replay: 1 NOT_JSON, 1 RECEIVES_EXHAUSTED",
        "1 NOT_JSON left: the processor would reject them again",
    ]
    assert result.stdout == "1 sent again, 0 found in RAW and resolved\n"
    assert len(world.waiting("lo-orders")) == 1


def test_a_dry_run_only_counts(world: World, root: Path) -> None:
    dead_letters(world, SOUND, BROKEN)
    result = run(root, "dlq", "replay", "--topic", TOPIC, "--dry-run", "--json", "--code", "NOT_JSON")
    assert json.loads(result.stdout)["counts"] == {"NOT_JSON": 1}
    assert json.loads(result.stdout)["dry_run"] is True
    assert result.stderr.splitlines()[-1] == "1 NOT_JSON left: the processor would reject them again"
    assert world.waiting("lo-orders") == []


def test_a_code_that_no_record_has_is_a_slip_and_the_codes_are_named(world: World, root: Path) -> None:
    dead_letters(world, BROKEN)
    result = run(root, "dlq", "replay", "--topic", TOPIC, "--code", "NOT_JSN")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "no record has the code NOT_JSN"
    assert result.exception.next_step == "the codes of this topic: NOT_JSON"


def test_since_limits_by_the_time_of_detection(world: World, root: Path) -> None:
    dead_letters(world, SOUND)
    for since, count in (("1h", 1), ("2000-01-01", 1), ("2999-01-01T00:00:00Z", 0)):
        result = run(root, "dlq", "replay", "--topic", TOPIC, "--since", since, "--dry-run", "--json")
        assert sum(json.loads(result.stdout)["counts"].values()) == count


def test_the_records_of_a_topic_are_listed_by_topic_code_and_status(world: World, root: Path) -> None:
    dead_letters(world, SOUND, BROKEN)
    run(root, "dlq", "replay", "--topic", TOPIC)
    for topic in ([], ["--topic", TOPIC]):
        assert json.loads(run(root, "dlq", "list", *topic, "--json").stdout) == [
            {"topic": TOPIC, "code": "NOT_JSON", "status": "open", "count": 1},
            {"topic": TOPIC, "code": "RECEIVES_EXHAUSTED", "status": "replayed", "count": 1},
        ]


def test_what_has_reached_raw_is_settled(world: World, root: Path) -> None:
    dead_letters(world, SOUND)
    run(root, "dlq", "replay", "--topic", TOPIC)
    assert json.loads(run(root, "dlq", "settle", "--topic", TOPIC, "--json").stdout) == [{"resolved": 0}]
    world.process()
    world.land()
    assert json.loads(run(root, "dlq", "settle", "--topic", TOPIC, "--json").stdout) == [{"resolved": 1}]


def test_what_names_no_topic_is_listed_too(world: World, root: Path) -> None:
    world.write_error_object("iceberg-failed", "no record")
    run(root, "firehose", "collect")
    [row] = json.loads(run(root, "firehose", "list", "--json").stdout)
    assert (row["topic"], row["code"]) == ("(none)", "UNREADABLE")


def test_where_nothing_ever_failed_there_is_nothing_to_replay(world: World, root: Path) -> None:
    for group in ("dlq", "firehose"):
        result = run(root, group, "replay", "--topic", TOPIC)
        assert (result.exit_code, result.stdout) == (0, "0 sent again, 0 found in RAW and resolved\n")


def test_firehose_errors_are_collected_and_replayed_the_same_way(world: World, root: Path) -> None:
    record = RawRecord("m1", TOPIC, 1_794_996_000_000_000, 1, None, "{}")
    world.write_error_object("iceberg-failed", error_line(raw_record.text(record)))
    assert json.loads(run(root, "firehose", "collect", "--json").stdout) == [{"rows": 1}]
    result = run(root, "firehose", "replay", "--topic", TOPIC, "--json")
    assert json.loads(result.stdout)["sent"] == 1
    assert world.firehose.rows == [record]


def test_what_is_not_taken_fails_the_command(world: World, root: Path) -> None:
    dead_letters(world, SOUND)
    world.calls.refuse = lambda name: "AccessDenied" if name == "sqs.SendMessageBatch" else None
    result = run(root, "dlq", "replay", "--topic", TOPIC)
    assert result.exit_code == 1
    assert "1 were not taken" in result.stderr


def test_the_balance_adds_up_or_fails_the_command(world: World, root: Path) -> None:
    world.send(SOUND, SOUND, body("m2"), body("m3"))
    world.process()
    assert run(root, "dlq", "balance", "--topic", TOPIC).exit_code == 1, "nothing is in RAW yet"
    world.land()
    dead_letters(world, BROKEN)
    result = run(root, "dlq", "balance", "--topic", TOPIC, "--json")
    [books] = json.loads(result.stdout)
    assert (result.exit_code, books["difference"]) == (0, 0)
    assert (books["received"], books["raw"], books["suppressed"], books["open_dlq"]) == (5, 3, 1, 1)
    assert run(root, "dlq", "balance", "--topic", TOPIC, "--received", "5").exit_code == 0
    assert run(root, "dlq", "balance", "--topic", TOPIC, "--received", "6").exit_code == 1


def test_the_balance_holds_after_a_bulk_load_past_the_processor(world: World, root: Path) -> None:
    world.send(body("m0"))
    world.process()
    file = root / "messages.jsonl"
    file.write_text("\n".join([*(body(f"m{number}") for number in range(1, 600)), BROKEN]))
    result = run(root, "send", TOPIC, str(file), "--entry", "firehose")
    assert result.stdout == f"{TOPIC}: 599 sent, 1 refused (1 NOT_JSON)\n"
    world.land()
    result = run(root, "dlq", "balance", "--topic", TOPIC, "--json")
    [books] = json.loads(result.stdout)
    assert (books["received"], books["raw"], books["difference"]) == (600, 600, 0)


def test_a_bulk_load_waits_for_minutes_when_it_is_told_to_slow_down() -> None:
    """The pauses alone are counted here, as if the calls took no time."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    patience = replace(sending._BULK, sleep=sleep, clock=lambda: clock[0])
    assert patience.exhaust([1], lambda work: work) == [1]
    assert clock[0] > 120


def test_the_balance_tells_how_far_it_may_be_off(world: World, root: Path) -> None:
    world.send(SOUND)
    world.process()
    world.firehose.accepted *= 2
    world.land()
    result = run(root, "dlq", "balance", "--topic", TOPIC, "--received", "2")
    assert (result.exit_code, result.stderr.splitlines()) == (
        1,
        [
            "the books are uncertain: 1 could be missing unseen, beyond the tolerance of 1.00%",
            "  next: --received with what the sender counted, or a greater --tolerance",
        ],
    )
    result = run(root, "dlq", "balance", "--topic", TOPIC, "--received", "2", "--tolerance", "0.5")
    assert (result.exit_code, result.stderr) == (
        0,
        "the books balance; 1 could be missing unseen, within the tolerance of 50.00%\n",
    )
    result = run(root, "dlq", "balance", "--topic", TOPIC, "--received", "3")
    assert (result.exit_code, result.stderr.splitlines()) == (
        1,
        [
            "the books do not balance; they can only once queues and buffers are empty",
            "  a difference from -1 to 0 would balance",
        ],
    )


def test_what_nobody_can_mend_is_closed_with_a_reason_and_stays_in_the_books(
    world: World, root: Path
) -> None:
    world.send(SOUND)
    world.process()
    world.land()
    dead_letters(world, BROKEN, "[]")
    closing = ("dlq", "close", "--topic", TOPIC, "--code", "NOT_JSON", "--reason", "the till's self-test")
    before = run(root, *closing, "--dry-run")
    assert (before.exit_code, before.stdout) == (0, "")
    result = run(root, *closing)
    assert (result.exit_code, result.stdout) == (0, "1 closed, 0 found in RAW and resolved\n")
    assert before.stderr == result.stderr == "to close: 1 NOT_JSON\n"
    assert [each["status"] for each in json.loads(run(root, "dlq", "list", "--json").stdout)] == [
        "resolved",
        "open",
    ]
    assert run(root, *closing).stdout == "0 closed, 0 found in RAW and resolved\n"
    [closed] = [each for each in attempts(world) if each["batch_id"] == "closed-1"]
    assert closed["detail"].startswith("the till's self-test (")
    for received in ([], ["--received", "3"]):
        result = run(root, "dlq", "balance", "--topic", TOPIC, "--json", *received)
        [books] = json.loads(result.stdout)
        assert (result.exit_code, books["received"], books["raw"]) == (0, 3, 1)
        assert (books["open_dlq"], books["closed"], books["difference"]) == (1, 1, 0)


def test_a_single_message_is_closed_by_its_id_and_what_names_no_topic_is_too(
    world: World, root: Path
) -> None:
    dead_letters(world, BROKEN, BROKEN)
    message = attempts(world)[0]["message_id"]
    result = run(root, "dlq", "close", "--topic", TOPIC, "--message", message, "--reason", "x", "--json")
    assert json.loads(result.stdout)["closed"] == 1
    world.write_error_object("iceberg-failed", "no record")
    run(root, "firehose", "collect")
    nowhere = (
        "firehose",
        "close",
        "--topic",
        "(none)",
        "--code",
        "UNREADABLE",
        "--reason",
        "a test's object",
    )
    assert run(root, *nowhere).stdout == "1 closed, 0 found in RAW and resolved\n"
    [row] = json.loads(run(root, "firehose", "list", "--topic", "(none)", "--json").stdout)
    assert (row["status"], row["count"]) == ("resolved", 1)


def test_a_closed_firehose_error_stays_in_the_books_and_a_new_failure_reopens_it(
    world: World, root: Path
) -> None:
    world.send(SOUND, body("m2"))
    world.process()
    world.land(fails=lambda row: row.message_id == "m2")
    run(root, "firehose", "collect")
    code = json.loads(run(root, "firehose", "list", "--json").stdout)[0]["code"]
    run(root, "firehose", "close", "--topic", TOPIC, "--code", code, "--reason", "not worth it")
    assert balance(root) == {"received": 2, "open_firehose": 0, "closed": 1, "difference": 0}
    failed_again = RawRecord("m2", TOPIC, 1_794_988_800_123_456, 1, None, "{}")
    world.write_error_object("iceberg-failed", error_line(raw_record.text(failed_again)))
    run(root, "firehose", "collect")
    assert balance(root) == {"received": 2, "open_firehose": 1, "closed": 0, "difference": 0}


def test_what_a_replay_has_just_sent_is_not_closed(world: World, root: Path) -> None:
    dead_letters(world, SOUND)
    run(root, "dlq", "replay", "--topic", TOPIC)
    result = run(root, "dlq", "close", "--topic", TOPIC, "--message", "m1", "--reason", "x")
    assert result.stdout == "0 closed, 0 found in RAW and resolved\n"
    assert result.stderr == "to close: nothing\nleft alone, on their way from an earlier replay: 1\n"


def balance(root: Path) -> dict[str, int]:
    [books] = json.loads(run(root, "dlq", "balance", "--topic", TOPIC, "--json").stdout)
    return {name: books[name] for name in ("received", "open_firehose", "closed", "difference")}


def attempts(world: World) -> list[dict[str, Any]]:
    return list(world.catalog.load_table(world.dlq_errors.spec.identifier).scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--code", "NOT_JSON", "--reason", " "], "an empty reason"),
        (["--reason", "x"], "nothing says which records"),
        (["--code", "NOT_JSN", "--reason", "x"], "no record has the code NOT_JSN"),
        (["--message", "m9", "--reason", "x"], "no record has the message_id m9"),
    ],
)
def test_a_closing_that_is_not_meant_is_refused(
    world: World, root: Path, arguments: list[str], words: str
) -> None:
    dead_letters(world, BROKEN)
    result = run(root, "dlq", "close", "--topic", TOPIC, *arguments)
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)
    assert len(attempts(world)) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["--topic", "ordres"], NotFoundError, "did you mean 'orders'"),
        (["--topic", TOPIC, "--since", "yesterday"], UsageError, "no point in time"),
    ],
)
def test_a_wrong_argument_is_named(
    world: World, root: Path, arguments: list[str], error: type[Exception], words: str
) -> None:
    result = run(root, "dlq", "replay", *arguments)
    assert isinstance(result.exception, error)
    assert words in str(result.exception)
