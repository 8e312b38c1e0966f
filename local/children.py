"""Child processes of the stack: how one is declared, started, awaited and ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lean_ops import parent_death
from lean_ops.errors import LeanOpsError
from local.prerequisites import full_disk

_TAIL_LINES = 5
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class ChildSpec:
    """One process: its command, when it counts as ready, how it is stopped, and what the supervisor's death brings.

    A `step` is not kept: it has to end well before the next child starts. A child that starts `at_once` is not
    waited for before the next one starts, but with all the others; one `after_all` starts when all those are ready.
    """

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool] = lambda: True
    step: bool = False
    at_once: bool = False
    after_all: bool = False
    ready_seconds: float = 120.0
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = 10.0
    death_signal: int = signal.SIGKILL


def listens(port: int) -> Callable[[], bool]:
    """Ready when somebody accepts connections on a port of this machine."""

    def probe() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    return probe


class Child:
    """A started process with a log of its own, in a process group of its own."""

    def __init__(self, spec: ChildSpec, variables: Mapping[str, str], logs: Path) -> None:
        self.spec = spec
        self._log = logs / f"{spec.name}.log"
        parent = os.getpid()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 (declared in the supervisor)
                spec.command,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Safe here: the supervisor has no other threads at this time.
                preexec_fn=lambda: parent_death.signal_at_death_of(parent, spec.death_signal),  # noqa: PLW1509
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def await_ready(self, interrupted: Callable[[], bool]) -> None:
        """Return once ready (a step: once done); a child that dies or takes too long is an error."""
        deadline = time.monotonic() + self.spec.ready_seconds
        while not interrupted():
            if self.spec.step and self._process.poll() == 0:
                return
            if self.ended:
                raise self.obituary()
            if not self.spec.step and self.spec.ready():
                return
            if time.monotonic() > deadline:
                raise LeanOpsError(
                    f"{self.spec.name} is not ready after {self.spec.ready_seconds:.0f} s", **self._facts()
                )
            time.sleep(_POLL_SECONDS)

    def obituary(self) -> LeanOpsError:
        """One line that says who died of what, and the last words of its log."""
        code = self._process.returncode
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return LeanOpsError(f"{self.spec.name} died ({cause})", **self._facts())

    def stop(self) -> None:
        """End the whole group: kindly first, and for certain."""
        if not self.ended:
            self._process.send_signal(self.spec.stop_signal)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self.spec.stop_seconds)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def _facts(self) -> dict[str, str]:
        if step := full_disk(self._log.parent):
            return {"next_step": step}
        lines = self._log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        return {"next_step": f"see {self._log}; it ends with:\n" + "\n".join(f"    {line}" for line in lines)}
