"""A Spark job on this machine: on the warm process when there is one, else in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lean_ops.batch import spark_process
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.batch.warm_spark import Listener, WarmJob


class LocalJob:
    """One job, which another thread or a signal handler may end."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._warm = WarmJob(home)
        self._cold = 0

    @property
    def warm(self) -> bool:
        """Whether Spark is up already."""
        return self._warm.taken

    def run(self, hop: str, arguments: JobArguments, listener: Listener) -> JobResult:
        """Run it to its end, passing its log lines on as they come."""
        if self._warm.taken:
            return self._warm.run(hop, arguments, listener)
        return spark_process.run(hop, arguments, self._variables, listener, on_start=self._started)

    def end(self) -> None:
        """End the job, and Spark too where it was started for this job alone."""
        self._warm.end()
        if self._cold:
            with suppress(ProcessLookupError):
                os.killpg(self._cold, signal.SIGKILL)

    def _started(self, pid: int) -> None:
        self._cold = pid
