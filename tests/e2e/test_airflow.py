"""Messages become Curated rows through scheduled runs of a real Airflow, and nothing of it outlives the stack."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from local.airflow_api import AirflowApi
from tests.e2e.stack import FAST, LocalStack, wait_until
from tests.e2e.test_stack_life import processes
from tests.repositories import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    """A stack that has orders in RAW and their contract in force, then comes up again with Airflow."""
    stack = LocalStack(tmp_path)
    try:
        stack.up(*FAST)
        stack.command("schema", "deploy", "orders")
        stack.command("send", "orders", str(ROOT / "examples" / "orders.ndjson"))
        stack.drain()
        wait_until(lambda: status(stack, "orders")["open"])
        stack.command("local", "down")
        stack.command("local", "up", "--detach", "--airflow", *(f"--set={pair}" for pair in FAST))
        yield stack
    finally:
        stack.run("local", "down")
        stack.run("local", "reset", "--yes")


def status(stack: LocalStack, topic: str) -> dict[str, Any]:
    entries = json.loads(stack.command("schema", "status", "--json"))
    return next(entry for entry in entries if entry["topic"] == topic)


class Api(AirflowApi):
    """Airflow as its page sees it."""

    def __init__(self, stack: LocalStack) -> None:
        super().__init__(stack.facts.endpoint("airflow"), stack.home)

    def run(self, topic: str) -> str:
        """Where the topic's first scheduled run is."""
        folder = f"/api/v2/dags/topic__{topic}/dagRuns"
        runs = wait_until(lambda: self.ask(f"{folder}?order_by=run_after")["dag_runs"], seconds=120)
        assert runs[0]["run_type"] == "scheduled"
        return f"{folder}/{quote(runs[0]['dag_run_id'])}"

    def settled(self, run: str, attempt: int = 1) -> dict[str, str]:
        """The states of a run's tasks once it is settled for the so many-th time."""

        def tasks() -> dict[str, Any]:
            return {each["task_id"]: each for each in self.ask(f"{run}/taskInstances")["task_instances"]}

        def done() -> bool:
            settle = tasks()["settle"]
            return (settle["state"], settle["try_number"]) == ("success", attempt)

        wait_until(done, seconds=240)
        return {name: each["state"] for name, each in tasks().items()}

    def told(self, run: str, task: str, beginning: str) -> datetime:
        """When a task's first line with this beginning was logged."""
        lines = self.ask(f"{run}/taskInstances/{task}/logs/1")["content"]
        told = (line for line in lines if str(line["event"]).startswith(beginning))
        return datetime.fromisoformat(next(told)["timestamp"])


def curated(stack: LocalStack) -> int:
    [counted] = stack.sql("select count(*) as n from iceberg_curated_db.orders")
    return int(counted["n"])


def test_scheduled_runs_carry_messages_into_curated_and_skip_what_has_no_schema(stack: LocalStack) -> None:
    api = Api(stack)
    run = api.run("orders")
    assert set(api.settled(run).values()) == {"success"}
    overhead = api.told(run, "standardize", "acquire_lease") - api.told(run, "schema_gate", "open: ")
    print(f"open gate to the first step of its Spark job: {overhead.total_seconds():.1f} s")  # noqa: T201
    rows = curated(stack)
    assert rows > 0
    assert stack.run("verify", "orders").exit_code == 0
    assert api.ask("/api/v2/importErrors")["total_entries"] == 0

    skipped = api.run("payments")
    assert api.settled(skipped)["schema_gate"] == "skipped"
    gate = f"{skipped}/taskInstances/schema_gate"
    assert "no schema" in str(api.ask(f"{gate}/xcomEntries/gate")["value"])
    assert "no schema" in str(api.ask(f"{gate}/logs/1")["content"])

    api.ask(f"{run}/clear", {"dry_run": False})
    assert api.settled(run, attempt=2)["schema_gate"] == "skipped", "nothing is new"
    assert curated(stack) == rows

    # However the supervisor ends, everybody ends with it: Airflow's workers, Postgres, Spark.
    assert len(processes(stack.home)) > 10
    os.kill(stack.facts.pid, signal.SIGKILL)
    wait_until(lambda: not processes(stack.home), seconds=60)
