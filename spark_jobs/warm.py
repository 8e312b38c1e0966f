"""A Spark process that stays: it takes jobs over a unix socket, each in a session of its own.

A job costs what it does, not what starting Spark costs. Two run at a time; a job whose client has gone is
cancelled, and ends like a crash would end it: the next run picks up what it left.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from lean_ops import runtime as runtimes
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.batch.steps import log_line
from lean_ops.batch.warm_spark import short_path, socket_file
from lean_ops.runtime import Runtime
from spark_jobs.curate import curate
from spark_jobs.entry import WorkOf, run_job
from spark_jobs.replay_errors import replay_errors
from spark_jobs.session import build_session
from spark_jobs.standardize import standardize

JOBS: dict[str, WorkOf] = {"standardize": standardize, "curate": curate, "replay": replay_errors}
_AT_ONCE = 2


@dataclass(frozen=True)
class Warm:
    """The session that all jobs share a context with."""

    spark: SparkSession
    runtime: Runtime
    slots: threading.Semaphore

    def serve(self, link: socket.socket) -> None:
        """One job from its request to its result."""
        with link, link.makefile("rb") as lines:
            line = lines.readline()
            if not line:
                return  # somebody only asked whether we are up
            try:
                result = self._run(link, json.loads(line))
                _send(link, {"result": result.model_dump(mode="json")})
            except OSError as error:
                log_line({"step": "job", "failed": type(error).__name__, "cause": "the client is gone"})

    def _run(self, link: socket.socket, request: dict[str, Any]) -> JobResult:
        group, context = uuid4().hex, self.spark.sparkContext
        with self.slots, _cancelled_with(link, lambda: context.cancelJobGroup(group)):
            context.setJobGroup(group, request["hop"], interruptOnCancel=True)
            return run_job(
                self.spark.newSession(),
                request["hop"],
                JOBS[request["hop"]],
                JobArguments.model_validate(request["arguments"], strict=False),
                self.runtime,
                # Raises once the client is gone: the job then goes no further than this step.
                log=lambda fields: _send(link, {"log": fields}),
            )


def _send(link: socket.socket, message: dict[str, Any]) -> None:
    link.sendall(json.dumps(message, default=str).encode() + b"\n")


@contextmanager
def _cancelled_with(link: socket.socket, cancel: Callable[[], None]) -> Iterator[None]:
    """While this lasts, the end of the connection cancels the job."""
    done = threading.Event()

    def watch() -> None:
        # Nothing more is ever sent to us: the next thing to read is the end.
        with suppress(OSError):
            link.recv(1)
        if not done.is_set():
            cancel()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        with suppress(OSError):
            link.shutdown(socket.SHUT_RD)


def _warm_up(spark: SparkSession) -> None:
    """What the first job would otherwise wait for: the catalog, a Python worker and Arrow."""
    spark.sql("show databases").collect()
    rows = spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
    if pa.table({"id": [row.id for row in rows]}).num_rows != 1:
        raise RuntimeError("Spark does not count to one")


def main() -> int:
    """`python -m spark_jobs.warm`, a child of the local stack."""
    runtime = runtimes.from_variables(os.environ)
    spark = build_session(runtime, app="lean-ops warm")
    _warm_up(spark)
    path = socket_file(runtime.home)
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    with short_path(path) as short:
        server.bind(short)
    path.chmod(0o600)
    server.listen()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        path.unlink(missing_ok=True)
        # No clean end of Spark: jobs may be under way, and all they leave is what a crash leaves.
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    log_line({"step": "ready"})
    warm = Warm(spark, runtime, threading.Semaphore(_AT_ONCE))
    while True:
        link, _ = server.accept()
        threading.Thread(target=warm.serve, args=(link,), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
