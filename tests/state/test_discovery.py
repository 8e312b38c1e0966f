"""Topics of the source are seen, remembered, and proposed for onboarding; the commands that say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from lambdas.topic_discovery import handler as topic_discovery
from lean_ops import naming, tables
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.discovery import Listings
from lean_ops.cli import app
from lean_ops.config.repository import Repository
from lean_ops.config.review import review
from lean_ops.ingestion.discovery import Listing
from lean_ops.naming import Names
from lean_ops.runtime import Runtime
from tests import repositories
from tests.state.conftest import ENVIRONMENT
from tests.state.deploying import World, make_world

Command = Callable[..., Result]
FIRST = datetime(2026, 11, 17, 6, 0, tzinfo=UTC)


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(dynamodb, names, tmp_path)
    for name, value in Runtime(ENVIRONMENT, tmp_path).variables().items():
        monkeypatch.setenv(name, value)
    # What boto3 would use anyway; without it, an emulated environment looks for a running stack.
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://dynamodb.{ENVIRONMENT.region}.amazonaws.com")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"https://s3.{ENVIRONMENT.region}.amazonaws.com")
    topic_discovery._wiring.cache_clear()
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    file = yaml.safe_dump(ENVIRONMENT.model_dump(mode="json", exclude_unset=True))
    orders = repositories.contract(repositories.column("id"))
    return repositories.repository(
        tmp_path / "repository",
        {
            "environments/test.yaml": file,
            "topics/orders.yaml": repositories.topic("orders"),
            "schemas/orders/schema.json": orders,
        },
    )


@pytest.fixture
def command(world: World, repository: Repository) -> Command:
    def run(*arguments: str) -> Result:
        line = [*arguments, "--env", "test", "--root", str(repository.root)]
        return CliRunner().invoke(app, line, catch_exceptions=False)

    return run


def listed(world: World, at: datetime, *topics: str) -> dict[str, Any]:
    """A listing is left, and its event calls the function."""
    sources = tuple(f"projects/p/topics/{topic}" for topic in topics)
    key = Listings(world.ports.s3, world.ports.names).put(Listing(project="p", listed_at=at, topics=sources))
    return {"detail-type": "Object Created", "detail": {"object": {"key": key}}}


def test_first_and_last_sight_of_every_topic_are_known(world: World, command: Command) -> None:
    command("topics", "onboard")
    event = listed(world, FIRST, "orders", "Order-Items")
    assert topic_discovery.handler(event, None) == {"topics": 2}
    assert topic_discovery.handler(event, None) == {"topics": 2}
    topic_discovery.handler(listed(world, FIRST + timedelta(days=1), "orders"), None)
    assert len(world.history("topic_registry")) == 2, "the same listing twice is told once"
    rows = json.loads(command("topics", "discover", "--json").stdout)
    assert [(row["topic"], row["onboarded"], row["first_seen"], row["last_seen"]) for row in rows] == [
        ("order_items", False, "2026-11-17 06:00:00+00:00", "2026-11-17 06:00:00+00:00"),
        ("orders", True, "2026-11-17 06:00:00+00:00", "2026-11-18 06:00:00+00:00"),
    ]


def test_a_proposal_is_sound_marked_as_a_guess_and_overwrites_nothing(
    world: World, command: Command, repository: Repository
) -> None:
    command("topics", "onboard")
    table = ensure_table(world.catalog, tables.raw("order_items"))
    rows = [
        {
            "message_id": f"m{number}",
            "topic_name": "order_items",
            "publish_time": FIRST,
            "ingestion_ts": 1,
            "idempotency_key": None,
            "json_payload": json.dumps({"itemId": f"i{number}", "amount": number / 2}),
        }
        for number in range(5)
    ]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    topic_discovery.handler(listed(world, FIRST, "orders", "Order-Items", "new", "日本"), None)
    before = (repository.topics_folder / "orders.yaml").read_bytes()
    answer = command("topics", "discover", "--propose", "--json")
    assert json.loads(answer.stdout) == [
        {"file": "topics/new.yaml"},
        {"file": "topics/order_items.yaml"},
        {"file": "schemas/order_items/schema.json"},
    ]
    assert (repository.topics_folder / "orders.yaml").read_bytes() == before
    assert review(repository).findings == ()
    topic = (repository.topics_folder / "order_items.yaml").read_text()
    assert "guesses, from 5 records" in topic
    assert yaml.safe_load(topic)["keys"] == {"idempotency_key": "itemId"}
    contract = json.loads(repository.contract_file("order_items").read_text())
    assert {each["name"]: each["type"] for each in contract["payload_columns"]} == {
        "item_id": "string",
        "amount": "decimal(38,2)",
    }
    assert json.loads(command("topics", "discover", "--propose", "--json").stdout) == []


def test_onboarding_makes_raw_and_a_pause_is_told_with_its_reason(world: World, command: Command) -> None:
    rows = json.loads(command("topics", "onboard", "orders", "--json").stdout)
    assert rows == [{"topic": "orders", "status": "NO_SCHEMA", "open": False}]
    assert world.catalog.table_exists(naming.raw_table("orders"))
    command("topics", "pause", "orders", "--reason", "a migration")
    (row,) = json.loads(command("schema", "status", "orders", "--json").stdout)
    assert (row["maintenance"], row["status"], row["open"]) == ("a migration", "NO_SCHEMA", False)
    command("topics", "resume", "orders", "--reason", "migrated")
    (row,) = json.loads(command("schema", "status", "--json").stdout)
    assert row["maintenance"] == ""
