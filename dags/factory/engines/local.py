"""This machine: the warm Spark process of the local stack, or a process that lives as long as its task."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dags.factory import release
from dags.factory.spark_job import SparkJob
from lean_ops.batch import local_job
from lean_ops.batch.job import JobArguments


class LocalEngineJob(SparkJob):
    """Waits for the job, its log lines passing into the task's own log."""

    _job: local_job.LocalJob | None = None

    def start(self, context: Context, arguments: JobArguments) -> dict[str, Any]:
        from lean_ops.aws import clients

        runtime = release.runtime()
        variables = {**runtime.variables(), **clients.variables(runtime)}
        self._job = local_job.LocalJob(runtime.home, variables)
        self.log.info("on the %s Spark process", "warm" if self._job.warm else "cold: a new")
        return self.finish(self._job.run(self.hop, arguments, self._log_step))

    def on_kill(self) -> None:
        if self._job is not None:
            self._job.end()

    def _log_step(self, step: dict[str, Any]) -> None:
        if "failed" in step:
            self.log.error("%s failed: %s", step["step"], step.get("traceback", step["failed"]))
        else:
            self.log.info("%s: %s s", step["step"], step.get("seconds"))
