"""What the stack's own HTTP servers share: quiet and prompt answers, and an orderly end."""

from __future__ import annotations

import signal
import threading
from typing import Any

from werkzeug.serving import BaseWSGIServer


class Quiet:
    """A request handler's manners. Nagle's algorithm would hold small answers back for 40 ms."""

    disable_nagle_algorithm = True

    def log_request(self, *_args: Any) -> None:
        """A line per call would be most of the log, and none of what matters in it."""


def until_told_to_stop(server: BaseWSGIServer) -> None:
    """Serve until SIGTERM or SIGINT, then return with the listening socket closed."""

    def stop(*_: Any) -> None:
        # `shutdown` waits for the serving loop, which this signal has interrupted: it needs its own thread.
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.serve_forever(poll_interval=0.1)
    server.server_close()
