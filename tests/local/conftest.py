"""The parts of the local stack, each run for real on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lean_ops import parent_death
from lean_ops.config.environments import CatalogSpec, DefaultEngineSpec, EnvironmentSpec
from lean_ops.runtime import Runtime
from tests.repositories import ROOT

ENVIRONMENT = EnvironmentSpec(
    name="local",
    account="000000000000",
    region="us-east-1",
    name_prefix="lean-ops-test",
    catalog=CatalogSpec(kind="sqlite"),
    engine=DefaultEngineSpec(kind="local"),
)


@dataclass(frozen=True)
class Emulator:
    """A running AWS emulation and its home folder."""

    home: Path
    endpoint: str
    pid: int

    def client(self, service: str) -> Any:
        session = boto3.session.Session("local", "local", region_name="us-east-1")
        config = Config(proxies={}, max_pool_connections=20, retries={"total_max_attempts": 1})
        return session.client(service, endpoint_url=self.endpoint, config=config)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true value; a condition that never holds fails the test."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def an_emulator(home: Path, ends_with: int = 0) -> Iterator[Emulator]:
    port = free_port()
    variables = os.environ | {
        "LEAN_OPS_HOME": str(home),
        "MOTO_ACCOUNT_ID": ENVIRONMENT.account,
        "PYTHONPATH": str(ROOT),
    }
    parent = os.getpid()
    process = subprocess.Popen(
        [sys.executable, "-m", "local.aws_emulator", str(port)],
        env=variables,
        preexec_fn=lambda: parent_death.signal_at_death_of(parent),  # noqa: PLW1509 (a killed test run, too)
    )
    try:
        wait_until(lambda: accepts(port))
        yield Emulator(home, f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        assert process.wait(20) == ends_with


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with an_emulator(tmp_path_factory.mktemp("emulator")) as running:
        yield running


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(ENVIRONMENT, tmp_path)
