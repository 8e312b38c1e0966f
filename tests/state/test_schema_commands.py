"""`lean-ops schema plan, deploy, status, history, rollback`, and the function that answers them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from lambdas.schema_validator import handler as schema_validator
from lean_ops.aws.handing_in import Desk, HandedIn
from lean_ops.aws.leases import LeaseHeldError
from lean_ops.cli import app
from lean_ops.config.repository import Repository
from lean_ops.errors import LeanOpsError, NotFoundError
from lean_ops.naming import Names
from tests import repositories
from tests.repositories import column
from tests.state.conftest import ENVIRONMENT
from tests.state.deploying import World, make_world, orders

Command = Callable[..., Result]
SCHEDULE = {"detail-type": "Scheduled Event"}


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(dynamodb, names, tmp_path)
    made.onboard()
    monkeypatch.setenv("LEAN_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("LEAN_OPS_PERSON", "Änn")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://dynamodb.{ENVIRONMENT.region}.amazonaws.com")
    for service in ("s3", "sns"):
        url = f"https://{service}.{ENVIRONMENT.region}.amazonaws.com"
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service.upper()}", url)
    monkeypatch.setattr(schema_validator, "_ports", lambda: made.ports)
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    environment = yaml.safe_dump(ENVIRONMENT.model_dump(mode="json", exclude_unset=True))
    files = {
        "environments/test.yaml": environment,
        "topics/orders.yaml": repositories.topic("orders"),
        "schemas/orders/schema.json": orders("1.0", column("quantity", "int")),
    }
    return repositories.repository(tmp_path / "repository", files)


@pytest.fixture
def command(world: World, repository: Repository) -> Command:
    def run(*arguments: str) -> Result:
        line = [*arguments, "--env", "test", "--root", str(repository.root)]
        return CliRunner().invoke(app, line, catch_exceptions=False)

    return run


def write(repository: Repository, text: str) -> None:
    repository.contract_file("orders").write_text(text)


def created(topic: str) -> dict[str, Any]:
    key = f"schemas/{topic}/pending/schema.json"
    return {"detail-type": "Object Created", "detail": {"object": {"key": key}, "requester": "123"}}


def context(seconds: float = 300) -> Any:
    return SimpleNamespace(get_remaining_time_in_millis=lambda: int(seconds * 1000))


@pytest.fixture
def answered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is handed in has its event at once."""
    hand_in = Desk.hand_in

    def and_call(self: Desk, topic: str, *arguments: Any, **options: Any) -> HandedIn:
        file = hand_in(self, topic, *arguments, **options)
        world.deploy(topic)
        return file

    monkeypatch.setattr(Desk, "hand_in", and_call)


def test_a_plan_says_what_a_deployment_would_do_and_does_nothing(
    world: World, command: Command, repository: Repository
) -> None:
    answer = command("schema", "plan", "orders")
    assert (answer.exit_code, answer.stdout.splitlines()[0]) == (0, "orders: would be activated (first)")
    assert world.files() == {}
    world.deployed(repository.contract_file("orders").read_text())
    write(repository, orders("1.1", column("quantity", "bigint"), column("city")))
    answer = command("schema", "plan", "orders", "--days", "0")
    assert answer.stdout.splitlines() == [
        "orders: would be activated (safe)",
        "  + safe      quantity: type_widened: int → bigint",
        "  + safe      city: column_added: string, optional",
        "  implies: city: rows stored before hold NULL until Curated is rebuilt",
    ]
    assert set(world.files()) == {"active/schema.json"}


def test_a_plan_is_made_with_the_topic_file_beside_it(
    world: World, command: Command, repository: Repository
) -> None:
    keys = "keys: {idempotency_key: order_id}\n"
    (repository.topics_folder / "payments.yaml").write_text(repositories.topic("payments"))
    contract = repository.contract_file("payments")
    contract.parent.mkdir()
    contract.write_text(orders("1.0", topic="payments"))
    plan = json.loads(command("schema", "plan", "payments", "--json").stdout)
    assert plan["outcome"] == "activated", "a new topic is planned before it is onboarded"
    world.deployed(repository.contract_file("orders").read_text())
    (repository.topics_folder / "orders.yaml").write_text(repositories.topic("orders", keys))
    write(repository, orders("1.1", column("quantity", "bigint")))
    plan = json.loads(command("schema", "plan", "orders", "--json").stdout)
    assert plan["needs"][0].startswith("idempotency_key: key_changed")


def test_a_plan_that_would_be_refused_fails_and_says_why(
    world: World, command: Command, repository: Repository
) -> None:
    world.deployed(repository.contract_file("orders").read_text())
    for version, reason in (("1.1", "'1.1'"), ("2.0", "quantity is int, and cannot become string")):
        write(repository, orders(version, column("quantity", "string")))
        answer = command("schema", "plan", "orders", "--json")
        plan = json.loads(answer.stdout)
        assert (answer.exit_code, plan["outcome"]) == (1, "rejected")
        assert reason in plan["findings"][0]["found"]
        assert plan["needs"][0].startswith("quantity: type_changed")


def test_a_file_that_is_handed_in_waits_and_is_told(world: World, command: Command) -> None:
    assert command("schema", "deploy", "orders", "--json").exit_code == 0
    assert "pending/schema.json" in world.files()
    (row,) = json.loads(command("schema", "status", "--json").stdout)
    assert (row["status"], row["open"]) == ("NO_SCHEMA", False)
    assert "a file waits in pending/" in command("schema", "status", "orders").stderr


@pytest.mark.usefixtures("answered")
def test_a_deployment_can_be_waited_for(command: Command) -> None:
    (result,) = json.loads(command("schema", "deploy", "--all", "--wait", "--json").stdout)
    assert (result["outcome"], result["version"]) == ("activated", "1.0")
    answer = command("schema", "deploy", "orders", "--wait")
    assert (answer.exit_code, answer.stdout) == (0, "orders: unchanged\n")
    (row,) = json.loads(command("schema", "history", "orders", "--json").stdout)
    assert (row["version"], row["classification"], row["changed_by"]) == ("1.0", "first", "\\xc4nn")


@pytest.mark.usefixtures("answered")
def test_a_refused_deployment_fails_with_every_finding(command: Command, repository: Repository) -> None:
    write(repository, orders("one", column("Quantity", "itn")))
    answer = command("schema", "deploy", "orders", "--wait", "--json")
    (result,) = json.loads(answer.stdout)
    assert (answer.exit_code, result["outcome"], len(result["findings"])) == (1, "rejected", 3)
    said = command("schema", "status", "orders").stderr
    assert "refused: /payload_columns/1/type: found 'itn'" in said
    assert "Did you mean 'int'?" in said


@pytest.mark.usefixtures("answered")
def test_no_refused_file_steers_a_terminal(command: Command, repository: Repository) -> None:
    write(repository, orders("1.0", **{"\x1b[2J": 1}))
    for answer in (command("schema", "deploy", "orders", "--wait"), command("schema", "status", "orders")):
        assert "\\x1b[2J" in answer.output
        assert "\x1b" not in answer.output


@pytest.mark.usefixtures("answered")
def test_a_rollback_brings_back_what_the_archive_holds(
    world: World, command: Command, repository: Repository
) -> None:
    command("schema", "deploy", "orders", "--wait")
    write(repository, orders("1.1", column("quantity", "bigint")))
    command("schema", "deploy", "orders", "--wait")
    with pytest.raises(NotFoundError, match=r"version 0\.9 .* is not in the archive: there is 1\.0"):
        command("schema", "rollback", "orders", "--to", "0.9")
    answer = command("schema", "rollback", "orders", "--to", "1.0", "--wait")
    assert answer.stdout.splitlines()[0] == "orders: activated (rollback)"
    assert world.entry().version == "1.0"
    shown = command("schema", "history", "orders").stdout
    assert [line.split()[-2] for line in shown.splitlines()[1:]] == ["first", "safe", "rollback"]


def test_waiting_ends_and_says_what_to_look_at(world: World, command: Command) -> None:
    with pytest.raises(LeanOpsError, match="still waits after 0 s") as caught:
        command("schema", "deploy", "orders", "--wait", "--timeout", "0")
    assert caught.value.next_step == "lean-ops schema status orders"


def test_a_topic_that_is_not_onboarded_is_told_how(command: Command, repository: Repository) -> None:
    for name in ("topics/payments.yaml", "schemas/payments/schema.json"):
        path = repository.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(repositories.topic("payments") if path.suffix == ".yaml" else "{}")
    with pytest.raises(NotFoundError) as caught:
        command("schema", "deploy", "payments")
    assert caught.value.next_step == "lean-ops topics onboard payments"


def test_an_event_deploys_its_topic_and_remembers_who_asked(world: World) -> None:
    world.hand_in(orders("1.0"))
    answer = schema_validator.handler(created("orders"), context())
    assert [(each["outcome"], each["version"]) for each in answer["deployed"]] == [("activated", "1.0")]
    (row,) = world.history("schema_versions")
    assert row["changed_by"] == "123"
    assert schema_validator.handler(created("orders"), context())["deployed"][0]["outcome"] == "nothing"


def test_the_event_of_another_object_is_nobodys(world: World) -> None:
    event = {
        "detail-type": "Object Created",
        "detail": {"object": {"key": "schemas/orders/active/schema.json"}},
    }
    assert schema_validator.handler(event, context()) == {"deployed": []}


def test_a_topic_that_a_batch_holds_is_deployed_by_the_schedule(world: World) -> None:
    world.onboard("payments")
    for topic in ("orders", "payments"):
        world.hand_in(orders("1.0", topic=topic), topic)
    now = time.time_ns() // 1_000_000
    claim = world.ports.leases.acquire("orders", "a batch", 3600, now)
    with pytest.raises(LeaseHeldError):
        schema_validator.handler(created("orders"), context(seconds=60))
    swept = schema_validator.handler(SCHEDULE, context())["deployed"]
    assert [each["topic"] for each in swept] == ["payments"], "a held topic hides no other"
    world.ports.leases.release(claim)
    assert [each["topic"] for each in schema_validator.handler(SCHEDULE, context())["deployed"]] == ["orders"]
    assert world.entry().open
