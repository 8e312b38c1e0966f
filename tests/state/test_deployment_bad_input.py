"""Whatever is put into pending/, nothing of it reaches DDL but names and types that were checked."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from lean_ops import naming
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry, Status
from lean_ops.aws.schema_folder import pending_topics
from lean_ops.aws.schema_ports import RETRYING
from lean_ops.naming import Names
from tests.repositories import column
from tests.state.deploying import Interrupted, World, make_world, orders

CYRILLIC_A, CYRILLIC_O = "\u0430", "\u043e"
SQL = "x); drop table iceberg_raw_db.orders_staging; --"


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path) -> World:
    made = make_world(dynamodb, names, tmp_path)
    made.onboard()
    return made


def tables(world: World) -> set[tuple[str, ...]]:
    return {name for database in naming.DATABASES for name in world.catalog.list_tables(database)}


BAD = {
    "empty": "",
    "not JSON": "version: 1.0",
    "cut off": orders("1.0")[:-3],
    "bytes": b"\xff\xfe\x00",
    "a list": "[]",
    "too deep": '{"a":' * 50_000,
    "ten thousand columns": orders("1.0", *(column(f"c{number}") for number in range(10_000))),
    "a name with spaces": orders("1.0", column("order total")),
    "a name with a quote": orders("1.0", column('a"b')),
    "a name with a backtick": orders("1.0", column("a`b")),
    "a name that is SQL": orders("1.0", column(SQL)),
    "a type that is SQL": orders("1.0", column("a", f"string {SQL}")),
    "a look-alike column": orders("1.0", column(f"{CYRILLIC_A}mount")),
    "a look-alike table": orders("1.0", table_name=f"{CYRILLIC_O}rders"),
    "the file of another topic": orders("1.0", table_name="payments"),
    "a table that is SQL": orders("1.0", table_name=SQL),
    "a version that is a path": orders("../../1.0"),
    "a control character": orders("1.0", column("a\x1b[2J")),
    "half a character": '{"table_name": "\\ud800"}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_and_touches_no_table(world: World, content: str | bytes) -> None:
    before = tables(world)
    world.hand_in(content)
    steps = Interrupted()
    result = world.deploy(steps=steps)
    assert result.outcome == "rejected"
    assert "tables" not in steps.names
    assert tables(world) == before
    assert set(world.files()) == {"failed/schema.json", "failed/error.json"}
    for finding in world.report()["findings"]:
        assert finding["found"]
        assert finding["expected"]
    assert (world.entry().status, world.entry().open) == (Status.ERROR, False)
    (alert,) = world.alerts()
    assert len(alert["Message"]) < 20_000
    assert alert["Message"].replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "folder",
    [
        "payments",
        "order",
        f"{CYRILLIC_O}rders",
        "orders/archive",
        "..",
        f"'{SQL}",
        "x" * 900,
        "errors",
        "Ö r",
    ],
)
def test_a_file_in_the_folder_of_nobody_is_refused_there_and_nowhere_else(world: World, folder: str) -> None:
    before = tables(world)
    world.hand_in(orders("1.0"), folder)
    assert folder in pending_topics(world.ports.s3, world.ports.names)
    result = world.deploy(folder)
    assert result.outcome == "rejected"
    assert set(world.files(folder)) == {"failed/schema.json", "failed/error.json"}
    assert world.report(folder)["findings"][0]["expected"] == "a topic that was onboarded"
    assert len(world.alerts()) == 1
    assert tables(world) == before
    assert [entry.topic for entry in world.ports.registry.all()] == ["orders"]
    assert world.entry().status is Status.NO_SCHEMA
    assert not {"pending", "active", "failed"} & set(world.places())


def test_a_near_miss_of_a_topic_is_told_the_topic(world: World) -> None:
    world.hand_in(orders("1.0", topic="order"), "order")
    world.deploy("order")
    assert world.report("order")["findings"][0]["nearest"] == "orders"


def test_text_that_may_hold_anything_arrives_as_text(world: World) -> None:
    hostile = f'"quotes", {SQL}\nand `lines`'
    result = world.deployed(orders("1.0", column("note", description=hostile), description=hostile))
    assert result.outcome == "activated"
    field = world.catalog.load_table(naming.curated_table("orders")).schema().find_field("note")
    assert field.doc == " ".join(hostile.split())
    assert world.catalog.table_exists(naming.raw_table("orders"))


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_seven_hundred_contracts_at_once_are_throttled_and_all_come_into_force(
    world: World, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    topics = [world.onboard(f"topic_{number}") for number in range(700)]
    for topic in topics:
        world.hand_in(orders("1.0", topic=topic), topic)
    chance, refused = random.Random(7), []  # noqa: S311 (no secret)

    def throttle(request: Any, **_: Any) -> AWSResponse | None:
        # moto has done the call by then: harder than AWS, which refuses before.
        if chance.random() > 0.1:
            return None
        refused.append(request.url)
        body = json.dumps({"__type": "ThrottlingException", "message": "slow down"}).encode()
        answer = AWSResponse(request.url, 400, {}, None)
        answer._content = body
        return answer

    dynamodb, s3 = boto3.client("dynamodb", config=RETRYING), boto3.client("s3", config=RETRYING)
    dynamodb.meta.events.register_first("before-send.dynamodb", throttle)
    ports = replace(
        world.ports,
        s3=s3,
        leases=Leases(dynamodb, names),
        registry=Registry(dynamodb, names),
        outbox=Outbox(dynamodb, names),
    )
    throttled = replace(world, ports=ports, dynamodb=dynamodb)
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda topic: throttled.deploy(topic).outcome, topics))
    assert outcomes == ["activated"] * 700
    assert all(entry.open for entry in world.ports.registry.all() if entry.topic in topics)
    assert len(refused) > 500, "the test has to be what it says"
