"""Jobs on AWS: start or attach, give the worker's slot back while they run, then read their answer from S3."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from airflow.sdk import Context
from airflow.triggers.base import BaseTrigger, TriggerEvent

from dags.factory import release
from dags.factory.failures import told_to_airflow
from dags.factory.spark_job import SparkJob
from lean_ops.batch.job import JobArguments
from lean_ops.config.topics import EngineKind

_POLL_SECONDS = 20.0


class RemoteJob(SparkJob):
    """A job of an engine on AWS; the engines differ only in their API."""

    kind: EngineKind

    def start(self, context: Context, arguments: JobArguments) -> dict[str, Any]:
        from lean_ops.aws.spark_runs import Submission, attach_or_submit, spark_runs

        runtime = release.runtime()
        size = arguments.topic.engine.size or runtime.environment.engine.size
        minutes = int((self.execution_timeout or timedelta(hours=1)).total_seconds() // 60)
        job = Submission(
            identity=_identity(context, self.task_id),
            attempt=0,
            hop=self.hop,
            arguments=arguments,
            size=getattr(runtime.environment.sizes, size),
            environment=runtime.environment.model_dump_json(),
            timeout_minutes=minutes,
        )
        run_id, new = attach_or_submit(spark_runs(runtime, self.kind), job, datetime.now(UTC))
        self.log.info("%s run %s as %s", "started" if new else "attached to", run_id, job.identity)
        self.defer(
            trigger=JobRunTrigger(kind=self.kind, hop=self.hop, run_id=run_id),
            method_name="resume",
            timeout=timedelta(minutes=minutes + 10),
        )
        raise AssertionError("defer never returns")

    def resume(self, context: Context, event: dict[str, str]) -> dict[str, Any]:
        """The run has ended: its answer, or what is known of its end."""
        from lean_ops.aws.clients import client
        from lean_ops.aws.spark_runs import read_result, spark_runs

        runtime = release.runtime()
        with told_to_airflow():
            run = spark_runs(runtime, self.kind).look(self.hop, event["run_id"])
            self.log.info("run %s ended: %s", run.run_id, run.detail)
            return self.finish(read_result(client(runtime, "s3"), runtime.names, run))


class JobRunTrigger(BaseTrigger):
    """Waits for a run to end. boto3 has no asynchronous calls: each look is one in a thread, every 20 seconds."""

    def __init__(self, *, kind: str, hop: str, run_id: str, poll_seconds: float = _POLL_SECONDS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind, self.hop, self.run_id, self.poll_seconds = kind, hop, run_id, poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        facts = {"kind": self.kind, "hop": self.hop, "run_id": self.run_id, "poll_seconds": self.poll_seconds}
        return f"{type(self).__module__}.{type(self).__qualname__}", facts

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from lean_ops.aws.spark_runs import spark_runs

        runs = spark_runs(release.runtime(), cast(EngineKind, self.kind))
        while (await asyncio.to_thread(runs.look, self.hop, self.run_id)).status == "active":
            await asyncio.sleep(self.poll_seconds)
        yield TriggerEvent({"run_id": self.run_id})  # type: ignore[no-untyped-call]


def _identity(context: Context, task_id: str) -> str:
    """One task of one run, in letters that every engine takes as a name."""
    ti = context["ti"]
    return re.sub(r"[^A-Za-z0-9._-]", "-", f"{ti.dag_id}.{task_id}.{ti.run_id}")[:256]
