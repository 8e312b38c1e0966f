"""Days of production end to end: what the tables hold is what was sent, and nothing outlives the command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from lean_ops.aws.clients import find_stack
from tests.e2e.stack import LocalStack, running, wait_until
from tests.e2e.test_stack_life import processes

pytestmark = [pytest.mark.e2e, pytest.mark.stack, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_tables_hold_what_was_sent(tmp_path: Path, seed: int) -> None:
    stack = LocalStack(tmp_path)
    done = stack.program("emulate", "full", "--records", "60", "--seed", str(seed), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["failed"] == 0
    assert {check["topic"] for check in told["checks"]} == {"orders", "events", "payments"}
    assert told["passed"] == len(told["checks"]) > 30
    statements = [check["statement"] for check in told["checks"] if check["topic"] == "payments"]
    assert any(re.fullmatch(r"all [1-9]\d* runs were skipped: no schema", each) for each in statements)
    assert set(told["seconds"]) == {"stack", "day1", "schema", "day2", "day4", "verify"}
    assert not processes(tmp_path)


def test_an_interrupted_emulation_leaves_no_process(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path)
    process = stack.foreground("emulate", "full", "--records", "60")
    wait_until(lambda: len(processes(tmp_path)) > 5, seconds=120)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    wait_until(lambda: not processes(tmp_path), seconds=60)


def test_what_ended_the_stack_is_named_not_what_came_of_it(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path)
    with stack.foreground("emulate", "full", "--records", "60", stderr=subprocess.PIPE) as process:
        wait_until(lambda: find_stack(tmp_path), seconds=240)
        os.kill(stack.facts.children["firehose"], signal.SIGKILL)
        _, told = process.communicate(timeout=240)
    assert process.returncode == 1
    assert b"lean-ops: the stack has ended: firehose died (signal SIGKILL)" in told
    assert b"Traceback" not in told
    assert not processes(tmp_path)


def test_a_running_stack_is_not_cleaned_away(tmp_path: Path) -> None:
    with running(tmp_path) as stack:
        refused = stack.program("emulate", "full")
        assert (refused.returncode, "a stack is running" in refused.stderr) == (1, True)
        refused = stack.program("emulate", "day1")
        assert (refused.returncode, "runs without Airflow" in refused.stderr) == (1, True)
