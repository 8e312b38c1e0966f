"""Seeding twice changes nothing; a file of messages is sent line by line, and what cannot be sent is counted."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache, partial

import pytest

from lean_ops.aws import clients
from lean_ops.aws.sending import Sent, to_queue
from lean_ops.config.topics import TopicSpec
from lean_ops.resources import FUNCTIONS, OBJECT_RULES, QUEUES, STATE_TABLES
from lean_ops.runtime import Runtime
from local.seed import Seed
from local.settings import Settings
from tests.local.conftest import Emulator

TOPICS = [TopicSpec(topic=name, owner="platform", description="A topic.") for name in ("orders", "payments")]


@pytest.fixture
def seed(runtime: Runtime, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Seed:
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.endpoint)
    return Seed(runtime, Settings(), cache(partial(clients.client, runtime)))


def test_everything_that_a_deployment_would_make_is_there_once_however_often_it_is_seeded(seed: Seed) -> None:
    names = seed.runtime.names
    seed.everything(TOPICS)
    seed.everything(TOPICS)
    mappings = seed.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    ours = [each for each in mappings if names.prefix in each["EventSourceArn"]]
    assert len(ours) == 2 * len(TOPICS) + len(OBJECT_RULES)
    assert all(each["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for each in ours)
    functions = {each["FunctionName"] for each in seed.client("lambda").list_functions()["Functions"]}
    assert {names.function(name) for name in FUNCTIONS} <= functions
    tables = seed.client("dynamodb").list_tables()["TableNames"]
    assert {names.state_table(table.name) for table in STATE_TABLES} <= set(tables)


def test_a_queue_redrives_to_its_own_dead_letter_queue(seed: Seed) -> None:
    names, sqs = seed.runtime.names, seed.client("sqs")
    seed.everything(TOPICS)
    url = sqs.get_queue_url(QueueName=names.queue("orders"))["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    dead_letters = names.queue_arn(names.dead_letter_queue("orders"))
    assert json.loads(found["RedrivePolicy"]) == {"deadLetterTargetArn": dead_letters, "maxReceiveCount": 5}
    assert found["MessageRetentionPeriod"] == str(QUEUES.retention_seconds)


def test_lines_are_sent_as_they_are_and_what_sqs_cannot_carry_is_counted(seed: Seed) -> None:
    seed.everything(TOPICS)
    too_large = b"x" * (QUEUES.max_message_bytes + 1)
    lines = [b'{"payload": {}}\n', b"broken\r\n", b"\n", b"\xff\xfe\n", too_large, "Grüße".encode()]
    *_, last = to_queue(seed.runtime, "payments", lines)
    assert last == Sent(3, Counter({"NOT_UTF8": 1, "TOO_LARGE": 1}))
    assert last.refused == 2
    sqs = seed.client("sqs")
    url = sqs.get_queue_url(QueueName=seed.runtime.names.queue("payments"))["QueueUrl"]
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert sorted(message["Body"] for message in messages) == ["Grüße", "broken", '{"payload": {}}']
