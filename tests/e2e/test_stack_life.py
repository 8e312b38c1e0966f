"""The stack starts whole or not at all, ends whole however it ends, and keeps what it was given."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lean_ops.aws import backlog, ingestion
from lean_ops.aws.clients import find_stack
from lean_ops.processes import is_alive
from tests.e2e.stack import FAST, LocalStack, running, wait_until
from tests.repositories import ROOT

pytestmark = pytest.mark.e2e


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    with running(tmp_path) as started:
        yield started


def processes(home: Path) -> set[int]:
    """Every living process that was started for a home folder."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"LEAN_OPS_HOME={home}\0".encode() in (folder / "environ").read_bytes():
                found.add(int(folder.name))
    return {pid for pid in found if is_alive(pid)}


def message(number: int) -> dict[str, str]:
    return {"message_id": f"m{number}", "publish_time": "2026-11-17T10:00:00Z", "payload": "{}"}


@pytest.mark.stack
def test_after_a_kill_of_the_supervisor_nobody_is_left_and_the_next_start_goes_on(stack: LocalStack) -> None:
    stack.send("orders", map(message, range(50)))
    assert len(processes(stack.home)) >= 5
    os.kill(stack.facts.pid, signal.SIGKILL)
    wait_until(lambda: not processes(stack.home), seconds=30)
    stack.up(*FAST)
    stack.drain()
    assert stack.sql("select count(distinct message_id) as n from iceberg_raw_db.orders_staging") == [
        {"n": 50}
    ]


@pytest.mark.stack
@pytest.mark.parametrize("env", ["local", "localglue"])
def test_a_restart_keeps_the_lake_the_queues_and_the_state(tmp_path: Path, env: str) -> None:
    with running(tmp_path, env) as stack:
        stack.send("orders", [message(1)])
        stack.drain()
        ingestion.queues(stack.runtime).send("orders", [json.dumps(message(2))], delay_seconds=900)
    wait_until(lambda: not processes(tmp_path), seconds=5)
    with running(tmp_path, env) as stack:
        assert stack.sql("select message_id from iceberg_raw_db.orders_staging") == [{"message_id": "m1"}]
        stack.send("orders", [message(1)])
        wait_until(lambda: orders_queue(stack).total == 1)
        left = stack.run("local", "drain", "--timeout", "2", "--json")
        assert left.exit_code == 1
        queue = stack.runtime.names.queue("orders")
        assert json.loads(left.stdout)["stuck"] == [f"{queue}: 0 waiting, 0 in flight, 1 delayed"]
        assert len(stack.sql("select message_id from iceberg_raw_db.orders_staging")) == 1


def orders_queue(stack: LocalStack) -> backlog.Depth:
    name = stack.runtime.names.queue("orders")
    return next(depth for depth in backlog.gauge(stack.runtime)().queues if depth.queue == name)


@pytest.mark.stack
def test_what_firehose_acknowledged_survives_its_kill(tmp_path: Path) -> None:
    with running(tmp_path, "local", "buffer_seconds=3600") as stack:
        stack.send("orders", map(message, range(1_000)), "firehose")
        os.kill(stack.facts.children["firehose"], signal.SIGKILL)
        wait_until(lambda: not processes(stack.home), seconds=30)
    with running(tmp_path) as stack:
        stack.drain()
        (row,) = stack.sql("select count(distinct message_id) as n from iceberg_raw_db.orders_staging")
        assert row == {"n": 1_000}


def test_ctrl_c_ends_a_stack_in_the_foreground(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path)
    with stack.foreground("local", "up") as process:
        wait_until(lambda: find_stack(tmp_path))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert processes(tmp_path) == set()


def test_ctrl_c_while_waiting_for_a_stack_in_the_background_takes_it_back(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path)
    with stack.foreground("local", "up", "--detach") as process:
        wait_until(lambda: len(processes(tmp_path)) > 2)  # its supervisor has begun
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert processes(tmp_path) == set()
    assert find_stack(tmp_path) is None


def test_a_dead_child_ends_the_stack_with_one_line_that_names_it(stack: LocalStack) -> None:
    os.kill(stack.facts.children["firehose"], signal.SIGKILL)
    wait_until(lambda: not processes(stack.home), seconds=30)
    assert "lean-ops: firehose died (signal SIGKILL)" in (stack.home / "logs" / "supervisor.log").read_text()
    done = stack.program("local", "status")
    assert done.returncode == 1
    assert f"no local stack is running in {stack.home}" in done.stderr


def test_a_busy_port_is_named_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = LocalStack(tmp_path).program("local", "up", "--detach", "--port", f"aws={port}")
    assert done.returncode == 1
    assert f"lean-ops: port {port} (aws) is in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert not processes(tmp_path)


def test_a_child_that_cannot_start_says_why(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "warehouse").write_text("a file where a folder should be")
    done = LocalStack(home).program("local", "up", "--detach")
    assert done.returncode == 1
    assert "lean-ops: seed died (exit code 1)" in done.stderr
    assert "warehouse" in done.stderr
    assert not processes(home)


def test_a_running_stack_admits_no_second_one_and_no_reset(stack: LocalStack) -> None:
    (stack.home / "precious.txt").write_text("mine")
    second = stack.program("local", "up", "--detach")
    assert second.returncode == 1
    assert f"another stack runs in {stack.home} (process {stack.facts.pid})" in second.stderr
    assert stack.program("local", "reset", "--yes").returncode == 1
    assert stack.run("local", "status").exit_code == 0
    stack.command("local", "down")
    stack.command("local", "reset", "--yes")
    assert [path.name for path in stack.home.iterdir()] == ["precious.txt"]


def test_an_environment_on_aws_has_no_local_stack(tmp_path: Path) -> None:
    done = LocalStack(tmp_path, "prod").program("local", "up")
    assert done.returncode == 1
    assert "the environment 'prod' is on AWS" in done.stderr
    assert (ROOT / "environments" / "prod.yaml").is_file()
