"""Spark jobs on Glue and EMR Serverless: found again by their identity, started, and looked after.

An identity names one task of one Airflow run. Whoever starts it a second time, after a lost worker or a cleared
task, first looks for a run of that identity that is still under way, and attaches to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from lean_ops.aws.clients import client
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.batch.spark_process import MODULES
from lean_ops.config.environments import SizeSpec
from lean_ops.config.topics import EngineKind
from lean_ops.errors import RetryableError
from lean_ops.naming import Names
from lean_ops.resources import JOB_RESULT_PREFIX
from lean_ops.runtime import Runtime

Status = Literal["active", "succeeded", "failed"]
# No job lives longer; older runs of the same identity were of another day's clearing.
_LOOK_BACK = timedelta(days=2)


@dataclass(frozen=True)
class Submission:
    """A job to start. `attempt` counts the ended runs of the same identity."""

    identity: str
    attempt: int
    hop: str
    arguments: JobArguments
    size: SizeSpec
    environment: str
    timeout_minutes: int

    @property
    def result_key(self) -> str:
        return f"{JOB_RESULT_PREFIX}{self.arguments.topic.topic}/{self.identity}-{self.attempt}.json"

    @property
    def token(self) -> str:
        """The same for every repetition of this attempt, another one for the next."""
        return hashlib.sha256(f"{self.identity}/{self.attempt}".encode()).hexdigest()

    @property
    def module(self) -> str:
        return MODULES.get(self.hop, self.hop)

    @property
    def command(self) -> dict[str, str]:
        """The job's own arguments, the same on every engine."""
        return {
            "--arguments": self.arguments.model_dump_json(),
            "--environment": self.environment,
            "--result": self.result_key,
            "--identity": self.identity,
        }


@dataclass(frozen=True)
class Run:
    """A run as the engine sees it."""

    run_id: str
    status: Status
    detail: str
    result_key: str


class SparkRuns(Protocol):
    """An engine on AWS."""

    def find(self, identity: str, hop: str, now: datetime) -> list[Run]: ...
    def submit(self, job: Submission) -> str: ...
    def look(self, hop: str, run_id: str) -> Run: ...


@dataclass(frozen=True)
class GlueRuns:
    """One Glue job per hop, shared by all topics."""

    glue: Any
    names: Names

    def find(self, identity: str, hop: str, now: datetime) -> list[Run]:
        pages = self.glue.get_paginator("get_job_runs").paginate(JobName=self._job(hop))
        found: list[Run] = []
        for page in pages:
            runs = page["JobRuns"]
            found += [
                _glue_run(run) for run in runs if run.get("Arguments", {}).get("--identity") == identity
            ]
            # Newest first: what follows is older still.
            if runs and runs[-1]["StartedOn"] < now - _LOOK_BACK:
                break
        return found

    def submit(self, job: Submission) -> str:
        try:
            answer = self.glue.start_job_run(
                JobName=self._job(job.hop),
                Arguments=job.command,
                WorkerType=job.size.glue_worker,
                NumberOfWorkers=job.size.workers,
                Timeout=job.timeout_minutes,
            )
        except self.glue.exceptions.ConcurrentRunsExceededException as error:
            raise RetryableError(
                f"Glue runs as many {job.hop} jobs as it may", next_step="raise the job's concurrent runs"
            ) from error
        return str(answer["JobRunId"])

    def look(self, hop: str, run_id: str) -> Run:
        return _glue_run(self.glue.get_job_run(JobName=self._job(hop), RunId=run_id)["JobRun"])

    def _job(self, hop: str) -> str:
        return self.names.job(MODULES.get(hop, hop))


@dataclass(frozen=True)
class EmrServerlessRuns:
    """One application for all jobs. A client token makes a repeated start the same run."""

    emr: Any
    names: Names

    def find(self, identity: str, hop: str, now: datetime) -> list[Run]:
        del hop
        application = self._application()
        try:
            pages = self.emr.get_paginator("list_job_runs").paginate(
                applicationId=application, createdAtAfter=now - _LOOK_BACK
            )
            ids = [run["id"] for page in pages for run in page["jobRuns"] if run.get("name") == identity]
        except self.emr.exceptions.ResourceNotFoundException:
            return []
        return [self._run(application, run_id) for run_id in ids]

    def submit(self, job: Submission) -> str:
        size, bucket = job.size, self.names.artifact_bucket
        settings = {
            "spark.submit.pyFiles": f"s3://{bucket}/lean_ops.zip",
            "spark.executor.cores": size.executor_cores,
            "spark.executor.memory": f"{size.executor_memory_gb}g",
            "spark.dynamicAllocation.maxExecutors": size.workers,
        }
        driver = {
            "entryPoint": f"s3://{bucket}/jobs/{job.module}.py",
            "entryPointArguments": list(_flat(job.command.items())),
            "sparkSubmitParameters": " ".join(f"--conf {key}={value}" for key, value in settings.items()),
        }
        answer = self.emr.start_job_run(
            applicationId=self._application(),
            clientToken=job.token,
            executionRoleArn=self.names.spark_role_arn,
            name=job.identity,
            jobDriver={"sparkSubmit": driver},
            executionTimeoutMinutes=job.timeout_minutes,
        )
        return str(answer["jobRunId"])

    def look(self, hop: str, run_id: str) -> Run:
        del hop
        return self._run(self._application(), run_id)

    def _run(self, application: str, run_id: str) -> Run:
        run = self.emr.get_job_run(applicationId=application, jobRunId=run_id)["jobRun"]
        words = run["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        result_key = words[words.index("--result") + 1]
        return Run(run_id, _status(run["state"]), f"{run['state']} {run.get('stateDetails', '')}", result_key)

    def _application(self) -> str:
        pages = self.emr.get_paginator("list_applications").paginate()
        wanted = self.names.spark_application
        ids = [each["id"] for page in pages for each in page["applications"] if each.get("name") == wanted]
        if not ids:
            raise RetryableError(f"EMR Serverless has no application {wanted}", next_step="deploy it first")
        return str(ids[0])


def spark_runs(runtime: Runtime, kind: EngineKind) -> SparkRuns:
    """The engine of a kind, in an environment."""
    if kind == "glue":
        return GlueRuns(client(runtime, "glue"), runtime.names)
    return EmrServerlessRuns(client(runtime, "emr-serverless"), runtime.names)


def attach_or_submit(runs: SparkRuns, job: Submission, now: datetime) -> tuple[str, bool]:
    """The run under way of this identity, or a new one; and whether it is new."""
    known = runs.find(job.identity, job.hop, now)
    active = next((run for run in known if run.status == "active"), None)
    if active is not None:
        return active.run_id, False
    return runs.submit(_numbered(job, len(known))), True


def read_result(s3: Any, names: Names, run: Run) -> JobResult:
    """What a job that ended has answered; one without an answer was lost, and is tried again."""
    try:
        content = s3.get_object(Bucket=names.ops_bucket, Key=run.result_key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        raise RetryableError(f"run {run.run_id} ended without an answer: {run.detail}") from None
    return JobResult.model_validate_json(content)


def _numbered(job: Submission, attempt: int) -> Submission:
    return Submission(**{**vars(job), "attempt": attempt})


def _glue_run(run: dict[str, Any]) -> Run:
    detail = f"{run['JobRunState']} {run.get('ErrorMessage', '')}"
    return Run(run["Id"], _status(run["JobRunState"]), detail, run["Arguments"]["--result"])


def _status(state: str) -> Status:
    if state in ("SUCCEEDED", "SUCCESS"):
        return "succeeded"
    ended = ("FAILED", "STOPPED", "TIMEOUT", "ERROR", "EXPIRED", "CANCELLED")
    return "failed" if state in ended else "active"


def _flat(pairs: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (word for pair in pairs for word in pair)
