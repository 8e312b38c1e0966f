"""Starts the whole stack on loopback, watches it, and ends all of it, whatever ends this process."""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import IO

import msgspec

from lean_ops import runtime as runtimes
from lean_ops.aws.clients import Stack, lock_file, stack_file
from lean_ops.batch.warm_spark import is_up
from lean_ops.config.repository import Repository, load_topics
from lean_ops.errors import LeanOpsError
from lean_ops.processes import is_alive
from lean_ops.runtime import Runtime
from local import prerequisites
from local import settings as local_settings
from local.airflow import USER, LocalAirflow
from local.children import Child, ChildSpec, listens
from local.guardian import GRACE_SECONDS
from local.lambda_runner import ready_file

PORTS = ("aws", "firehose")
EXTRAS = ("spark", "airflow", "traffic")
# Below the range from which the kernel takes ports for outgoing connections.
_FREE_PORTS = range(20_000, 32_000)
_WATCH_SECONDS = 0.5
_INTERRUPTED = 130


@dataclass(frozen=True)
class Plan:
    """What is to run, and where."""

    runtime: Runtime
    root: Path
    settings: local_settings.Settings
    ports: dict[str, int]
    extras: frozenset[str] = frozenset()

    @cached_property
    def airflow(self) -> LocalAirflow | None:
        """Airflow, if it was asked for."""
        if "airflow" not in self.extras:
            return None
        name = self.runtime.environment.name
        return LocalAirflow(self.runtime.home, self.root, name, self.ports["airflow"])

    @property
    def wants_spark(self) -> bool:
        return not self.extras.isdisjoint(("spark", "airflow"))  # Airflow's jobs run on it

    def children(self) -> tuple[ChildSpec, ...]:
        """In the order of starting; they end in the opposite order."""
        aws, firehose = self.ports["aws"], self.ports["firehose"]
        emulator = _module("local.aws_emulator", aws)
        home = self.runtime.home
        warm = ChildSpec(
            "spark", _module("spark_jobs.warm"), partial(is_up, home), at_once=True, ready_seconds=180
        )
        traffic = ChildSpec("traffic", _module("local.emulation.live", self.root), at_once=True)
        return (
            # It writes down all it holds when it ends, and is given the time for it.
            ChildSpec("aws", emulator, listens(aws), stop_seconds=60, death_signal=signal.SIGTERM),
            # Spark and Airflow take longest to start, and need nothing of what follows until there are runs.
            *((warm,) if self.wants_spark else ()),
            *(self.airflow.children() if self.airflow else ()),
            ChildSpec("seed", _module("local.seed", self.root), step=True),
            ChildSpec("firehose", _module("local.firehose", firehose), listens(firehose)),
            ChildSpec("lambda", _module("local.lambda_runner"), ready_file(home).exists),
            *((self.airflow.scheduler(),) if self.airflow else ()),
            *((traffic,) if "traffic" in self.extras else ()),
        )

    @property
    def endpoints(self) -> dict[str, str]:
        return {name: f"http://127.0.0.1:{port}" for name, port in self.ports.items()}

    def variables(self) -> dict[str, str]:
        """What every child finds in its environment. Nothing of a real AWS account may be left in it."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        return (
            inherited
            | self.runtime.variables()
            | (self.airflow.variables() if self.airflow else {})
            | {
                "AWS_ACCESS_KEY_ID": "local",
                "AWS_SECRET_ACCESS_KEY": "local",
                "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_ENDPOINT_URL": self.endpoints["aws"],
                "AWS_ENDPOINT_URL_FIREHOSE": self.endpoints["firehose"],
                "MOTO_ACCOUNT_ID": self.runtime.environment.account,
                "NO_PROXY": "127.0.0.1,localhost",
                "PYTHONPATH": str(Path(__file__).parent.parent),
                "PYTHONUNBUFFERED": "1",
                local_settings.SETTINGS_VARIABLE: msgspec.json.encode(self.settings).decode(),
            }
        )


class Supervisor:
    """A running stack."""

    def __init__(self, plan: Plan, lock: IO[str]) -> None:
        self._plan = plan
        self._stopping = Event()
        self._children: list[Child] = []
        self._guardian = subprocess.Popen(  # noqa: S603 (our own module)
            _module("local.guardian"),
            stdin=subprocess.PIPE,
            text=True,
            env=plan.variables(),
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._stopping.set())

    def run(self) -> None:
        """Start everything, stay until told to stop or a child dies, end everything."""
        try:
            self._start()
            while not self._stopping.wait(_WATCH_SECONDS):
                for child in self._children:
                    if child.ended:
                        raise child.obituary()
        finally:
            self._stop()

    def _start(self) -> None:
        began = time.monotonic()
        home, logs = self._plan.runtime.home, self._plan.runtime.home / "logs"
        logs.mkdir(exist_ok=True)
        if sys.stderr.isatty():
            _say(f"starting, logs in {logs}")
        ready_file(home).unlink(missing_ok=True)
        for spec in self._plan.children():
            if spec.after_all:
                self._await_all()
            if self._stopping.is_set():
                return
            child = Child(spec, self._plan.variables(), logs)
            self._children.append(child)
            self._tell_guardian(f"+{child.pid}")
            if not spec.at_once:
                child.await_ready(self._stopping.is_set)
            if spec.step:
                self._end(child)
        self._await_all()
        if self._stopping.is_set():
            return
        pids = {child.spec.name: child.pid for child in self._children}
        Stack(self._plan.runtime.environment.name, os.getpid(), self._plan.endpoints, pids).write(home)
        _say(f"ready after {time.monotonic() - began:.1f} s, home {home}")
        for name, url in self._plan.endpoints.items():
            _say(f"  {name:<9} {url}")
        if self._plan.airflow:
            _say(f"  log in as {USER} with {self._plan.airflow.secrets['password']}")

    def _await_all(self) -> None:
        for child in self._children:
            child.await_ready(self._stopping.is_set)

    def _end(self, child: Child) -> None:
        child.stop()
        self._children.remove(child)
        # Its number may belong to a stranger tomorrow.
        self._tell_guardian(f"-{child.pid}")

    def _tell_guardian(self, line: str) -> None:
        if self._guardian.stdin is not None:
            self._guardian.stdin.write(f"{line}\n")
            self._guardian.stdin.flush()

    def _stop(self) -> None:
        stack_file(self._plan.runtime.home).unlink(missing_ok=True)
        for child in self._children[::-1]:
            self._end(child)
        self._guardian.communicate()
        _say("stopped")


def _module(name: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *map(str, arguments))


def _say(text: str) -> None:
    sys.stderr.write(f"lean-ops local: {text}\n")
    sys.stderr.flush()


def choose_ports(assignments: Sequence[str], servers: Sequence[str] = PORTS) -> dict[str, int]:
    """A port for every server: those given as `name=number` if they are free, else any free one."""
    chosen: dict[str, int] = {}
    for name, _, number in (pair.partition("=") for pair in assignments):
        if name not in servers or not number.isdecimal():
            known = ", ".join(servers)
            raise LeanOpsError(
                f"--port {name}={number}: not NAME=NUMBER with one of {known}", next_step="leave it out"
            )
        chosen[name] = int(number)
        if not _is_free(chosen[name]):
            raise LeanOpsError(
                f"port {number} ({name}) is in use",
                next_step=f"--port {name}=NUMBER, or leave it out for a free one",
            )
    for name in servers:
        while name not in chosen:
            port = random.choice(_FREE_PORTS)  # noqa: S311 (no secret)
            if port not in chosen.values() and _is_free(port):
                chosen[name] = port
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def lock_home(home: Path) -> IO[str]:
    """The home folder for ourselves. After a kill, waits for the guardian of the dead stack to be done."""
    home.mkdir(parents=True, exist_ok=True)
    lock = lock_file(home).open("a+", encoding="utf-8")
    deadline = time.monotonic() + GRACE_SECONDS + 5
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip()
            if time.monotonic() > deadline or (owner and is_alive(int(owner))):
                raise LeanOpsError(
                    f"another stack runs in {home} (process {owner})", next_step="lean-ops local down"
                ) from None
            time.sleep(0.1)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def main(arguments: list[str] | None = None) -> int:
    """`lean-ops local up`."""
    parser = argparse.ArgumentParser(prog="lean-ops local up")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--port", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--with", action="append", default=[], choices=EXTRAS, dest="extras")
    options = parser.parse_args(arguments)
    try:
        repository = Repository(options.root)
        runtime = runtimes.from_repository(repository, options.env, os.environ)
        load_topics(repository).checked()
        with lock_home(runtime.home) as lock:
            settings = local_settings.from_assignments(options.set)
            extras = frozenset(options.extras)
            servers = (*PORTS, "airflow") if "airflow" in extras else PORTS
            plan = Plan(runtime, options.root, settings, choose_ports(options.port, servers), extras)
            prerequisites.require(runtime.home, spark=plan.wants_spark)
            Supervisor(plan, lock).run()
    except LeanOpsError as error:
        sys.stderr.write(f"lean-ops: {error}\n" + (f"  next: {error.next_step}\n" if error.next_step else ""))
        return 1
    except KeyboardInterrupt:  # before anything was started
        return _INTERRUPTED
    return 0
