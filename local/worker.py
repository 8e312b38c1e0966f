"""One execution environment of a function: a process of its own, which can crash without harm to its caller."""

from __future__ import annotations

import os
import random
import sys
import threading
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from lean_ops import parent_death, resources
from lean_ops import runtime as runtimes
from local import settings as local_settings
from local.functions import Function
from local.settings import Settings

_CRASHED = 137


def _adjust(settings: Settings) -> None:
    """Local time runs faster. Before the handler's modules are imported: they take these as defaults."""
    resources.BREAKER = replace(
        resources.BREAKER,
        window_seconds=settings.breaker_window_seconds,
        cool_down_seconds=settings.breaker_cool_down_seconds,
    )


def main(name: str, descriptor: int, caller_pid: int) -> None:
    """Answer events until the caller goes away."""
    parent_death.signal_at_death_of(caller_pid)
    settings = local_settings.from_variables(os.environ)
    _adjust(settings)
    function = Function(name, runtimes.from_variables(os.environ).names)
    with Connection(descriptor) as caller:
        while True:
            try:
                event = msgspec.json.decode(caller.recv_bytes())
            except EOFError:
                return
            _perhaps_crash(settings)
            caller.send_bytes(msgspec.json.encode(_answer(function, event)))


def _answer(function: Function, event: Any) -> dict[str, Any]:
    try:
        return {"answer": function(event)}
    except Exception:  # noqa: BLE001 (whatever a handler throws is its answer)
        return {"error": traceback.format_exc()}


def _perhaps_crash(settings: Settings) -> None:
    if random.random() < settings.crash_share:  # noqa: S311 (no secret)
        moment = random.uniform(0, settings.crash_after_seconds)  # noqa: S311
        threading.Timer(moment, os._exit, [_CRASHED]).start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
