"""Steps of a job: each external effect runs inside one, is timed, and leaves one structured line in the log."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def log_line(fields: dict[str, Any]) -> None:
    """One JSON object on stderr. Facts only: a payload or a key never belongs here."""
    sys.stderr.write(json.dumps(fields, default=str) + "\n")


class Steps:
    """Times the steps of one run.

    Whatever can fail outside this process happens inside a step, so the names of a clean run list every effect
    of a job; tests subclass this to fail before or after each of them.
    """

    def __init__(self, log: Callable[[dict[str, Any]], None] = log_line, **facts: object) -> None:
        self.seconds: dict[str, float] = {}
        self._log = log
        self._facts = facts
        self._guard: Callable[[], None] = lambda: None

    def about(self, **facts: object) -> None:
        """Facts that every later line carries: topic, batch."""
        self._facts |= facts

    def guard(self, check: Callable[[], None]) -> None:
        """Called at the beginning of every later step: who lost the right to go on must not begin another."""
        self._guard = check

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            self._guard()
            yield
        except BaseException as error:
            self._log({"step": name, "failed": type(error).__name__, **self._facts})
            raise
        seconds = time.monotonic() - started
        self.seconds[name] = round(self.seconds.get(name, 0.0) + seconds, 3)
        self._log({"step": name, "seconds": round(seconds, 3), **self._facts})
