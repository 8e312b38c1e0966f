"""Calls a function in its execution environment, and replaces the environment when it crashed or hangs."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

import msgspec

from lean_ops.resources import FUNCTIONS


class FunctionError(Exception):
    """The function threw, crashed or timed out: nothing is known of what it did."""


class Execution:
    """A function as its callers see it: one event at a time, as an execution environment takes them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def __call__(self, event: Any) -> Any:
        with self._lock:
            try:
                reply = self._exchange(msgspec.json.encode(event))
            except (EOFError, OSError) as error:
                self._discard()
                raise FunctionError(f"{self._name} crashed") from error
        if "error" in reply:
            raise FunctionError(reply["error"])
        return reply["answer"]

    def _exchange(self, event: bytes) -> dict[str, Any]:
        pipe = self._pipe or self._start()
        pipe.send_bytes(event)
        seconds = FUNCTIONS[self._name].timeout_seconds
        if not pipe.poll(seconds):
            self._discard()
            raise FunctionError(f"{self._name} timed out after {seconds} seconds")
        reply: dict[str, Any] = msgspec.json.decode(pipe.recv_bytes())
        return reply

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            descriptor = theirs.fileno()
            self._process = subprocess.Popen(  # noqa: S603 (our own module)
                [sys.executable, "-m", "local.worker", self._name, str(descriptor), str(os.getpid())],
                pass_fds=[descriptor],
            )
        self._pipe = ours
        return ours

    def _discard(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._pipe = self._process = None
