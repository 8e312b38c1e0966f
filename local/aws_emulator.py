"""Runs moto's server, corrected, on loopback, and keeps its state in a file across restarts."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Condition
from typing import Any

from moto.dynamodb.responses import DynamoHandler
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

from local import moto_corrections, moto_state, serving
from local import settings as local_settings
from local.settings import Settings

STATE_FILE = "emulator.state"
_LAST_CALLS_SECONDS = 3

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Gate:
    """Lets calls through until it is closed: what was acknowledged is then part of the saved state."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app
        self._changed = Condition()
        self._inside = 0
        self._closed = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._changed:
            if self._closed:
                start_response("503 Service Unavailable", [("Content-Length", "0")])
                return []
            self._inside += 1
        try:
            return self._app(environ, start_response)
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: self._inside == 0, timeout=_LAST_CALLS_SECONDS)


class Handler(serving.Quiet, MotoRequestHandler):
    """moto's handler, without a line per request."""


def throttle_dynamodb(share: float) -> None:
    """Refuse a share of the calls before anything is done, as DynamoDB does under load."""
    call_action = DynamoHandler.call_action
    refusal = {
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "slower",
    }

    def perhaps(handler: DynamoHandler) -> Any:
        if random.random() < share:  # noqa: S311 (no secret)
            return 400, {}, json.dumps(refusal)
        return call_action(handler)

    DynamoHandler.call_action = perhaps  # type: ignore[method-assign]


def main(home: Path, port: int, settings: Settings) -> None:
    """Serve until told to stop, then save."""
    moto_corrections.apply()
    if settings.throttled_share:
        throttle_dynamodb(settings.throttled_share)
    state = home / STATE_FILE
    sys.stderr.write(f"aws emulator: {moto_state.restore(state)}\n")
    gate = Gate(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", port, gate, threaded=True, request_handler=Handler)
    serving.until_told_to_stop(server)
    gate.close()
    moto_state.save(state)


if __name__ == "__main__":
    main(Path(os.environ["LEAN_OPS_HOME"]), int(sys.argv[1]), local_settings.from_variables(os.environ))
