"""`lean-ops doctor`: is everything here that the commands need? One line a check, the pass count last."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.config.repository import Repository

FREE_GB = 5
PYTHONS = ((3, 11), (3, 12), (3, 13))
JAVAS = (17, 21)


@dataclass(frozen=True)
class Check:
    """One thing that must be so; `next_step` says what to do when it is not."""

    name: str
    passed: bool
    detail: str
    next_step: str = ""


def doctor(root: options.Root = None, env: options.Env = "local", as_json: options.Json = False) -> None:
    """Check Python, Java, jars, ports, disk, reviewed files, and AWS."""
    checks = list(_checks(root, env))
    passed = sum(check.passed for check in checks)
    if as_json:
        output.data({"checks": [vars(check) for check in checks], "passed": passed, "total": len(checks)})
    else:
        for check in checks:
            output.line(f"{'ok  ' if check.passed else 'FAIL'}  {check.name:<12}  {check.detail}")
            if not check.passed:
                output.line(f"{'':20}next: {check.next_step}")
        output.line(f"doctor: {passed} passed, {len(checks) - passed} failed")
    raise typer.Exit(output.FINE if passed == len(checks) else output.FINDINGS)


def _checks(root: Path | None, env: str) -> Iterator[Check]:
    repository = options.repository(root)
    yield _python()
    yield _java()
    yield _jars(repository.root)
    yield _ports()
    yield _disk(repository.root)
    yield _reviewed_files(repository)
    yield _aws(root, env)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    return Check(
        "python", sys.version_info[:2] in PYTHONS, version, f"install one of {wanted}, then make setup"
    )


def _java() -> Check:
    step = "install a JDK 17 (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return Check("java", False, "no java on the PATH", step)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return Check("java", False, f"{java} does not run", step)
    match = re.search(r'version "(\d+)', answer.stderr)
    version = int(match.group(1)) if match else 0
    return Check("java", version in JAVAS, f"{version} at {java}", step)


def _jars(root: Path) -> Check:
    lock = root / "locks" / "jars.txt"
    if not lock.is_file():
        return Check("jars", False, "no locks/jars.txt", "run this in a clone of lean-ops")
    cache = Path(os.environ.get("LEAN_OPS_CACHE", root / ".cache")) / "jars"
    wanted = [line.split() for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    bad = [name for _, name, digest in wanted if _digest(cache / name) != digest]
    detail = f"missing or damaged: {', '.join(bad)}" if bad else f"{len(wanted)} in {cache}"
    return Check("jars", not bad, detail, "make setup")


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ports() -> Check:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return Check("ports", True, "loopback gives free ports")
    except OSError as error:
        return Check("ports", False, f"loopback cannot be bound: {error}", "bring the loopback interface up")


def _disk(root: Path) -> Check:
    free = shutil.disk_usage(root).free / 1024**3
    return Check("disk", free >= FREE_GB, f"{free:.0f} GB free", f"free at least {FREE_GB} GB")


def _attempt(name: str, check: Callable[[], str], next_step: str) -> Check:
    # A doctor reports whatever goes wrong, of whatever kind: that is its whole purpose.
    try:
        return Check(name, True, check())
    except Exception as error:  # noqa: BLE001
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return Check(name, False, reason, getattr(error, "next_step", "") or next_step)


def _reviewed_files(repository: Repository) -> Check:
    from lean_ops.config.review import review

    result = review(repository)
    count = len(result.findings)
    detail = f"{count} finding{'s' * (count != 1)}" if count else f"{len(result.topics)} topics fine"
    return Check("files", not count, detail, "lean-ops topics validate")


def _aws(root: Path | None, env: str) -> Check:
    def reach() -> str:
        from lean_ops.aws.clients import client, find_stack

        runtime = options.runtime(root, env)
        if runtime.environment.emulated and find_stack(runtime.home) is None:
            return f"{env}: emulated, not running (lean-ops local up starts it)"
        identity = client(runtime, "sts").get_caller_identity()
        return f"{env}: account {identity['Account']}"

    step = "lean-ops local up --detach" if env == "local" else "log in to AWS (aws sso login), or name --env"
    return _attempt("aws", reach, step)
