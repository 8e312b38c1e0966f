"""A restart of the emulation forgets nothing that a person would miss."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.local.conftest import Emulator, an_emulator


def fill(emulator: Emulator) -> None:
    sqs, dynamodb, s3 = (emulator.client(name) for name in ("sqs", "dynamodb", "s3"))
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="waiting")
    sqs.send_message(QueueUrl=url, MessageBody="delayed", DelaySeconds=900)
    dynamodb.create_table(
        TableName="state",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.put_item(TableName="state", Item={"id": {"S": "a"}, "n": {"N": "7"}})
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="folder/object", Body=b"content")
    emulator.client("glue").create_database(DatabaseInput={"Name": "db"})


def assert_filled(emulator: Emulator) -> None:
    sqs, dynamodb, s3 = (emulator.client(name) for name in ("sqs", "dynamodb", "s3"))
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert message["Body"] == "waiting"
    delayed = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesDelayed"])
    assert delayed["Attributes"]["ApproximateNumberOfMessagesDelayed"] == "1"
    assert dynamodb.get_item(TableName="state", Key={"id": {"S": "a"}})["Item"]["n"] == {"N": "7"}
    assert s3.get_object(Bucket="bucket", Key="folder/object")["Body"].read() == b"content"
    assert emulator.client("glue").get_database(Name="db")["Database"]["Name"] == "db"


def test_queues_items_objects_and_the_catalog_survive_an_orderly_stop(tmp_path: Path) -> None:
    with an_emulator(tmp_path) as before:
        fill(before)
    with an_emulator(tmp_path) as after:
        assert_filled(after)


def test_a_kill_brings_back_the_state_of_the_last_orderly_stop(tmp_path: Path) -> None:
    with an_emulator(tmp_path) as before:
        fill(before)
    with an_emulator(tmp_path, ends_with=-signal.SIGKILL) as killed:
        killed.client("s3").put_object(Bucket="bucket", Key="later", Body=b"lost")
        os.kill(killed.pid, signal.SIGKILL)
    with an_emulator(tmp_path) as after:
        assert_filled(after)
        listed = after.client("s3").list_objects_v2(Bucket="bucket")
        assert [each["Key"] for each in listed["Contents"]] == ["folder/object"]


def test_a_state_of_another_version_is_put_aside_and_does_not_keep_the_emulation_from_starting(
    tmp_path: Path,
) -> None:
    (tmp_path / "emulator.state").write_bytes(b"of another time")
    with an_emulator(tmp_path) as running:
        assert running.client("sqs").list_queues().get("QueueUrls", []) == []
    assert (tmp_path / "emulator.unreadable").read_bytes() == b"of another time"


def test_deleted_messages_leave_nothing_behind(tmp_path: Path) -> None:
    with an_emulator(tmp_path) as running:
        sqs = running.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        for _ in range(50):
            entries = [{"Id": str(index), "MessageBody": "x" * 10_000} for index in range(10)]
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
            for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert (tmp_path / "emulator.state").stat().st_size < 500_000
