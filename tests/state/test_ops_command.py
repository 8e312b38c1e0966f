"""`lean-ops ops flush`, as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lean_ops.aws.outbox import Outbox
from lean_ops.cli import app
from lean_ops.naming import Names
from tests.repositories import repository
from tests.state.conftest import ENVIRONMENT
from tests.state.test_outbox import result


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    file = yaml.safe_dump(ENVIRONMENT.model_dump(mode="json", exclude_unset=True))
    root = repository(tmp_path, {"environments/test.yaml": file}).root
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://dynamodb.{ENVIRONMENT.region}.amazonaws.com")
    monkeypatch.setenv("LEAN_OPS_HOME", str(tmp_path / "home"))
    return ["ops", "flush", "--env", "test", "--root", str(root)]


def test_it_says_how_many_rows_each_table_got(dynamodb: Any, names: Names, command: list[str]) -> None:
    Outbox(dynamodb, names).put(result(drift=3))
    answer = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    assert json.loads(answer.stdout) == [
        {"table": "job_run_history", "rows": 1},
        {"table": "drift_log", "rows": 3},
    ]


def test_it_says_when_nothing_was_waiting(dynamodb: Any, command: list[str]) -> None:
    answer = CliRunner().invoke(app, command, catch_exceptions=False)
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "", "nothing was waiting\n")
