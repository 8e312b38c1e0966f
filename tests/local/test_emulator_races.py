"""Where moto as it comes loses writes of concurrent callers, the emulation keeps them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException

from tests.local.conftest import Emulator

THREADS = 8


def together(action: Callable[[int], Any]) -> list[Any]:
    """What each of the threads returned that did it at the same moment."""
    gate = Barrier(THREADS)

    def run(number: int) -> Any:
        gate.wait()
        return action(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@pytest.fixture(scope="module")
def table(emulator: Emulator) -> str:
    emulator.client("dynamodb").create_table(
        TableName="races",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return "races"


# A big item makes the moment between check and write long enough to be hit by the other threads.
BULK = {"L": [{"S": str(number)} for number in range(8_000)]}


def test_a_race_of_conditional_updates_has_one_winner(emulator: Emulator, table: str) -> None:
    dynamodb = emulator.client("dynamodb")
    dynamodb.put_item(TableName=table, Item={"id": {"S": "lease"}, "fence": {"N": "0"}, "bulk": BULK})

    def take(fence: int) -> bool:
        try:
            dynamodb.update_item(
                TableName=table,
                Key={"id": {"S": "lease"}},
                UpdateExpression="SET fence = :next",
                ConditionExpression="fence = :known",
                ExpressionAttributeValues={":known": {"N": str(fence)}, ":next": {"N": str(fence + 1)}},
            )
        except dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    winners = [sum(together(lambda _, fence=fence: take(fence))) for fence in range(4)]
    assert winners == [1] * 4


def test_concurrent_updates_of_one_item_all_count(emulator: Emulator, table: str) -> None:
    dynamodb = emulator.client("dynamodb")
    dynamodb.put_item(TableName=table, Item={"id": {"S": "counter"}, "bulk": BULK})

    def add(_: int) -> None:
        for _ in range(4):
            dynamodb.update_item(
                TableName=table,
                Key={"id": {"S": "counter"}},
                UpdateExpression="ADD n :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )

    together(add)
    item = dynamodb.get_item(TableName=table, Key={"id": {"S": "counter"}}, ProjectionExpression="n")["Item"]
    assert item["n"]["N"] == str(4 * THREADS)


@pytest.fixture
def glue(emulator: Emulator) -> Catalog:
    bucket = f"lake-{uuid.uuid4()}"
    emulator.client("s3").create_bucket(Bucket=bucket)
    catalog = load_catalog(
        "races",
        type="glue",
        warehouse=f"s3://{bucket}/warehouse",
        **{
            "client.region": "us-east-1",
            "client.access-key-id": "local",
            "client.secret-access-key": "local",
            "glue.endpoint": emulator.endpoint,
            "s3.endpoint": emulator.endpoint,
        },
    )
    catalog.create_namespace_if_not_exists("db")
    return catalog


def test_every_acknowledged_glue_commit_is_kept(glue: Catalog) -> None:
    name = f"db.t{uuid.uuid4().hex}"
    rows = pa.table({"n": pa.array([1], pa.int64())})
    glue.create_table(name, rows.schema)

    def append(_: int) -> int:
        acknowledged = 0
        for _ in range(3):
            try:
                glue.load_table(name).append(rows)
                acknowledged += 1
            except CommitFailedException:
                continue  # refused aloud: the writer knows that it has to try again
        return acknowledged

    acknowledged = sum(together(append))
    assert acknowledged > 0
    assert glue.load_table(name).scan().to_arrow().num_rows == acknowledged


def test_a_stale_glue_version_is_refused(emulator: Emulator, glue: Catalog) -> None:
    name = f"t{uuid.uuid4().hex}"
    glue.create_table(f"db.{name}", pa.schema([("n", pa.int64())]))
    client = emulator.client("glue")
    current = client.get_table(DatabaseName="db", Name=name)["Table"]["VersionId"]
    change = {"DatabaseName": "db", "TableInput": {"Name": name, "Parameters": {"table_type": "ICEBERG"}}}
    client.update_table(**change, VersionId=current, SkipArchive=True)
    with pytest.raises(client.exceptions.ConcurrentModificationException):
        client.update_table(**change, VersionId=current, SkipArchive=True)


def test_messages_sent_while_others_are_deleted_stay(emulator: Emulator) -> None:
    sqs = emulator.client("sqs")
    url = sqs.create_queue(QueueName=f"q-{uuid.uuid4()}")["QueueUrl"]
    many = [f"first {number}" for number in range(2_000)]
    send_all(sqs, url, many)

    def send_or_delete(number: int) -> set[str]:
        if number % 2:
            bodies = [f"{number}/{turn}" for turn in range(100)]
            send_all(sqs, url, bodies)
            return set(bodies)
        return receive_and_delete(sqs, url, calls=20)

    results = together(send_or_delete)
    sent = set(many).union(*results[1::2])
    assert receive_and_delete(sqs, url).union(*results[0::2]) == sent


def send_all(sqs: Any, url: str, bodies: list[str]) -> None:
    for start in range(0, len(bodies), 10):
        entries = [
            {"Id": str(index), "MessageBody": body} for index, body in enumerate(bodies[start : start + 10])
        ]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)


def receive_and_delete(sqs: Any, url: str, calls: int = 10_000) -> set[str]:
    taken: set[str] = set()
    for _ in range(calls):
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages")
        if not messages:
            break
        taken |= {message["Body"] for message in messages}
        receipts = [
            {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
            for index, message in enumerate(messages)
        ]
        sqs.delete_message_batch(QueueUrl=url, Entries=receipts)
    return taken
