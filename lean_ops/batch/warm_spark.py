"""Hands a job to the warm Spark process of a home folder, over a unix socket.

One connection is one job: a line with the hop and its arguments there, lines of JSON back, each a step of the log
or, last, the result. Closing the connection ends the job.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.errors import RetryableError

Listener = Callable[[dict[str, Any]], None]
_LONGEST_PATH = 100  # what every kernel takes as the path of a socket


def socket_file(home: Path) -> Path:
    """Where the warm process of a home folder listens."""
    return home / "spark.sock"


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A path that a socket can have, however deep the folder is."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def is_up(home: Path) -> bool:
    """Whether a warm process takes jobs."""
    link = _connected(home)
    if link is not None:
        link.close()
    return link is not None


class WarmJob:
    """One job on the warm process."""

    def __init__(self, home: Path) -> None:
        self._link = _connected(home)

    @property
    def taken(self) -> bool:
        """Whether there is a warm process at all."""
        return self._link is not None

    def run(self, hop: str, arguments: JobArguments, listener: Listener) -> JobResult:
        """Run the job to its end, passing its log lines on as they come."""
        if self._link is None:
            raise RetryableError("no warm Spark process takes jobs")
        request = {"hop": hop, "arguments": arguments.model_dump(mode="json")}
        try:
            with self._link.makefile("rwb") as lines:
                lines.write(json.dumps(request).encode() + b"\n")
                lines.flush()
                for line in lines:
                    message = json.loads(line)
                    if "result" in message:
                        return JobResult.model_validate(message["result"], strict=False)
                    listener(message["log"])
        except OSError as error:
            raise RetryableError(f"the warm Spark process is gone: {error}") from error
        finally:
            self._link.close()
        raise RetryableError("the warm Spark process ended before the job did")

    def end(self) -> None:
        """End the job from elsewhere: the process sees the closed connection and cancels it."""
        if self._link is not None:
            with suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)


def _connected(home: Path) -> socket.socket | None:
    link = socket.socket(socket.AF_UNIX)
    try:
        with short_path(socket_file(home)) as path:
            link.connect(path)
    except OSError:
        link.close()
        return None
    return link
