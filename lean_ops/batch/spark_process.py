"""Runs a Spark job in a process of its own, which never outlives this one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lean_ops import parent_death
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.errors import RetryableError

Listener = Callable[[dict[str, Any]], None]
# The job's module, where it is not called like its hop.
MODULES = {"replay": "replay_errors"}
_KEPT_LINES = 40


def run(
    hop: str,
    arguments: JobArguments,
    variables: Mapping[str, str],
    listener: Listener,
    on_start: Callable[[int], None] = lambda _: None,
) -> JobResult:
    """Run a hop's job to its end."""
    text = answer(MODULES.get(hop, hop), arguments.model_dump_json(), variables, listener, on_start)
    return JobResult.model_validate_json(text)


def answer(
    module: str,
    arguments: str,
    variables: Mapping[str, str],
    listener: Listener,
    on_start: Callable[[int], None] = lambda _: None,
) -> str:
    """Start a job, pass its structured log lines on as they come, and return its answer.

    `on_start` hears the number of the job's process group, for whoever may have to end it.
    """
    parent = os.getpid()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", f"spark_jobs.{module}", "--arguments", arguments],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: parent_death.signal_at_death_of(parent),  # noqa: PLW1509
    )
    try:
        on_start(process.pid)
        noise = _listen(process.stderr or (), listener)
        told = (process.stdout.read() if process.stdout else "").splitlines()
        process.wait()
    finally:
        # The JVM is in the same group: whatever ends this wait ends it too.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if not told:
        raise RetryableError(
            f"the {module} job ended with code {process.returncode} and no answer:\n{''.join(noise)}",
            next_step="lean-ops doctor",
        )
    return told[-1]


def _listen(lines: Iterable[str], listener: Listener) -> list[str]:
    """Tell the listener of every step; the last other lines are returned."""
    noise: list[str] = []
    for line in lines:
        step = _step(line)
        if step is None:
            noise = [*noise[1 - _KEPT_LINES :], line]
        else:
            listener(step)
    return noise


def _step(line: str) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and "step" in fields else None
