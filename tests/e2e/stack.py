"""A local stack under test, driven the way a person drives it: by commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from lean_ops.aws import clients
from lean_ops.aws.clients import Stack
from lean_ops.cli import app
from lean_ops.config.repository import Repository
from lean_ops.runtime import Runtime, from_repository
from tests.repositories import ROOT

# Times so short that a broken message has used up its five receives within seconds.
FAST = ("visibility_seconds=1", "batch_window_seconds=0.2", "schedule_seconds=1", "buffer_seconds=0.5")


@dataclass(frozen=True)
class LocalStack:
    """The commands of one environment and home folder."""

    home: Path
    env: str = "local"

    @property
    def runtime(self) -> Runtime:
        return from_repository(Repository(ROOT), self.env, self._variables())

    @property
    def facts(self) -> Stack:
        return clients.local_stack(self.runtime)

    def run(self, *arguments: str, stdin: bytes = b"") -> Result:
        """A command and its outcome. In this process: a new one would spend a second on imports, each time."""
        line = [*arguments, "--root", str(ROOT), "--env", self.env]
        return CliRunner().invoke(app, line, input=stdin, env=self._variables())

    def command(self, *arguments: str, stdin: bytes = b"") -> str:
        """What a command that has to succeed printed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.exit_code == 0, f"{arguments}: {done.output}{done.exception}"
        return done.stdout

    def program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command as a process of its own, with the messages and exit codes that a shell sees."""
        line = self._line(*arguments)
        return subprocess.run(line, env=self._variables(), capture_output=True, text=True, check=False)

    def foreground(self, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        """A command that stays."""
        return subprocess.Popen(self._line(*arguments), env=self._variables(), **streams)

    def _line(self, *arguments: str) -> list[str]:
        program = str(Path(sys.executable).with_name("lean-ops"))
        return [program, *arguments, "--root", str(ROOT), "--env", self.env]

    def up(self, *settings: str) -> None:
        self.command("local", "up", "--detach", *(f"--set={pair}" for pair in settings))

    def send(self, topic: str, messages: Iterable[Mapping[str, Any] | str], entry: str = "sqs") -> None:
        lines = [each if isinstance(each, str) else json.dumps(each) for each in messages]
        self.command("send", topic, "-", "--entry", entry, stdin="\n".join(lines).encode())

    def drain(self) -> None:
        self.command("local", "drain", "--timeout", "120")

    def sql(self, query: str) -> list[dict[str, Any]]:
        return list(json.loads(self.command("sql", query, "--json")))

    def client(self, service: str) -> Any:
        return clients.client(self.runtime, service)

    def trouble(self, **faults: Any) -> None:
        """Tell Firehose to misbehave; without arguments, to behave."""
        url = f"{self.facts.endpoint('firehose')}/faults"
        urllib.request.urlopen(url, json.dumps(faults).encode()).close()  # noqa: S310

    def _variables(self) -> dict[str, str]:
        return os.environ | {"LEAN_OPS_HOME": str(self.home), "PYTHONPATH": str(ROOT)}


@contextmanager
def running(home: Path, env: str = "local", *settings: str, fast: bool = True) -> Iterator[LocalStack]:
    """A stack that is up, and that is down afterwards whatever the test did."""
    stack = LocalStack(home, env)
    stack.up(*(FAST if fast else ()), *settings)
    try:
        yield stack
    finally:
        stack.run("local", "down")


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true value; a condition that never holds fails the test."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return value
