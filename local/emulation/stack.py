"""The stack that an emulation runs on: the one that is up, or one of its own that ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lean_ops import parent_death
from lean_ops.aws.clients import Stack, find_stack
from lean_ops.errors import LeanOpsError
from lean_ops.runtime import Runtime
from local.emulation.progress import Progress
from local.prerequisites import full_disk

_NOTICED_SECONDS = 3.0
# A broken message has used up its five receives within seconds.
SETTINGS = ("visibility_seconds=3", "schedule_seconds=1")


@contextmanager
def stack(runtime: Runtime, root: Path, progress: Progress) -> Iterator[Stack]:
    """A stack with Airflow. One that we start is gone when we are, however we end."""
    present = find_stack(runtime.home)
    if present is not None:
        if "airflow" not in present.endpoints:
            raise LeanOpsError(
                f"the stack in {runtime.home} runs without Airflow", next_step="lean-ops local down"
            )
        yield present
        return
    process = _start(runtime, root)
    try:
        with progress.step("stack", "AWS, Spark and Airflow up") as note:
            started = _ready(runtime, process)
            note.text = started.endpoint("airflow")
        yield started
    except Exception as error:
        # Whatever failed against a stack that has ended by itself: the cause is what ended it.
        if _has_ended(runtime):
            process.wait()
            raise LeanOpsError(f"the stack has ended: {_last_words(runtime)}") from error
        raise
    finally:
        # A second Ctrl-C must not cut the end of the stack short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with progress.step("stack", "stopped"):
            process.terminate()
            process.wait()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _start(runtime: Runtime, root: Path) -> subprocess.Popen[bytes]:
    logs, parent = runtime.home / "logs", os.getpid()
    logs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "local", "--root", str(root)]
    command += ["--env", runtime.environment.name, "--with=airflow", *(f"--set={pair}" for pair in SETTINGS)]
    with _log(runtime).open("wb") as log:
        return subprocess.Popen(  # noqa: S603 (our own module)
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us; the stack is told by us
            preexec_fn=lambda: parent_death.signal_at_death_of(parent, signal.SIGTERM),  # noqa: PLW1509
        )


def _ready(runtime: Runtime, process: subprocess.Popen[bytes]) -> Stack:
    while process.poll() is None:
        found = find_stack(runtime.home)
        if found is not None and found.pid == process.pid:
            return found
        time.sleep(0.1)
    raise LeanOpsError(f"the stack did not start: {_last_words(runtime)}")


def _has_ended(runtime: Runtime) -> bool:
    """Whether the stack is down or going down; the supervisor may need a moment to notice that a child has died."""
    deadline = time.monotonic() + _NOTICED_SECONDS
    while find_stack(runtime.home) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _last_words(runtime: Runtime) -> str:
    """The supervisor says why it ends in the form that our own errors have; a full disk takes that away, too."""
    said = _log(runtime).read_text("utf-8", "replace").rpartition("lean-ops: ")[2].strip()
    return said or full_disk(runtime.home) or "it was stopped"


def _log(runtime: Runtime) -> Path:
    return runtime.home / "logs" / "supervisor.log"
