"""Clients of AWS: plain boto3 there, the endpoints of the running local stack in an emulated environment."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from lean_ops.errors import LeanOpsError
from lean_ops.processes import is_alive
from lean_ops.runtime import Runtime


@dataclass(frozen=True)
class Stack:
    """A running local stack, as its supervisor wrote it down in the home folder."""

    environment: str
    pid: int
    endpoints: dict[str, str]
    children: dict[str, int]

    def endpoint(self, service: str) -> str:
        return self.endpoints.get(service, self.endpoints["aws"])

    def write(self, home: Path) -> None:
        """Whoever reads the file sees the old stack or the new one, never half of it."""
        draft = stack_file(home).with_suffix(".tmp")
        draft.write_text(json.dumps(asdict(self), indent=2), "utf-8")
        draft.replace(stack_file(home))


def stack_file(home: Path) -> Path:
    """Where the supervisor says which endpoints are up."""
    return home / "stack.json"


def lock_file(home: Path) -> Path:
    """Locked by the supervisor, and after its death until the last of its children is gone."""
    return home / "stack.lock"


def is_locked(home: Path) -> bool:
    """Whether anything of a stack is left in a home folder."""
    with suppress(FileNotFoundError), lock_file(home).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def find_stack(home: Path) -> Stack | None:
    """The stack that runs in a home folder; a file left behind by a killed one does not count."""
    try:
        stack = Stack(**json.loads(stack_file(home).read_text("utf-8")))
    except FileNotFoundError:
        return None
    return stack if is_alive(stack.pid) else None


def local_stack(runtime: Runtime) -> Stack:
    """The stack of an emulated environment, or an error that says how to start it."""
    name = runtime.environment.name
    stack = find_stack(runtime.home)
    if stack is None:
        raise LeanOpsError(
            f"no local stack is running in {runtime.home}",
            next_step=f"lean-ops local up --detach --env {name}",
        )
    if stack.environment != name:
        raise LeanOpsError(
            f"the stack running in {runtime.home} is for the environment {stack.environment!r}, not {name!r}",
            next_step=f"add --env {stack.environment}, or set LEAN_OPS_ENV",
        )
    return stack


def variables(runtime: Runtime) -> dict[str, str]:
    """What points boto3, Spark and other programs of a child process to the same place; empty on AWS."""
    if not runtime.environment.emulated:
        return {}
    stack = local_stack(runtime)
    special = {
        f"AWS_ENDPOINT_URL_{name.upper()}": url for name, url in stack.endpoints.items() if name != "aws"
    }
    credentials = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
    return {"AWS_ENDPOINT_URL": stack.endpoint("aws"), **special, **credentials}


def endpoint(runtime: Runtime, service: str) -> str:
    """Where an emulated environment has a service. A process's own variable wins, as boto3 itself has it."""
    return os.environ.get("AWS_ENDPOINT_URL") or local_stack(runtime).endpoint(service)


def client(runtime: Runtime, service: str, config: Config | None = None) -> Any:
    """A client of an AWS service. An emulated environment never uses real credentials nor a proxy."""
    emulated = runtime.environment.emulated
    session = _session(runtime.environment.region, "local" if emulated else None)
    if not emulated:
        return session.client(service, config=config)
    # With the variable set boto3 finds the endpoint by itself, and special ones for single services too.
    url = None if "AWS_ENDPOINT_URL" in os.environ else endpoint(runtime, service)
    direct = Config(proxies={}) if config is None else config.merge(Config(proxies={}))
    return session.client(service, endpoint_url=url, config=direct)


@lru_cache
def _session(region: str, credential: str | None) -> boto3.session.Session:
    """One for all clients of a process: a session of its own would make each take twice as long to build."""
    return boto3.session.Session(credential, credential, region_name=region)
