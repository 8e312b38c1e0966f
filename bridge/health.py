"""What kubelet and Prometheus ask: alive, ready, how much."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Faults = Callable[[], Mapping[str, str]]


class HealthServer(ThreadingHTTPServer):
    """Answers on its own threads, so that a busy courier never looks dead."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], *, unhealthy: Faults, unready: Faults) -> None:
        super().__init__(address, _Handler)
        self.unhealthy = unhealthy
        self.unready = unready
        Thread(target=self.serve_forever, name="health", daemon=True).start()

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"


class _Handler(BaseHTTPRequestHandler):
    server: HealthServer

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._faults(self.server.unhealthy())
        elif self.path == "/readyz":
            self._faults(self.server.unready())
        elif self.path == "/metrics":
            self._answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _faults(self, faults: Mapping[str, str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if faults else HTTPStatus.OK
        self._answer(status, "application/json", json.dumps({"faults": dict(faults)}).encode())

    def _answer(self, status: HTTPStatus, content_type: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """A probe every few seconds is no news."""
