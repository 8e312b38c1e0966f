"""What a Spark job is told and what it answers, whatever engine starts it: one JSON object each way."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lean_ops.batch.batch_plan import ErrorSelection
from lean_ops.batch.batch_result import BatchResult
from lean_ops.config.specs import Spec
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import DataFaultError, LeanOpsError, RetryableError, StateUnknownError

ErrorClass = Literal["retryable", "data_fault", "state_unknown", "fatal"]


class JobArguments(Spec):
    """The topic as it was reviewed, and how much of its backlog one run takes at most.

    With `until_snapshot`, later snapshots of the source do not exist for this run. A replay of errors takes those
    of its `selection`.
    """

    topic: TopicSpec
    max_batches: Annotated[int, Field(ge=1)] = 100
    bite_records: Annotated[int, Field(ge=1)] = 2_000_000
    bite_bytes: Annotated[int, Field(ge=1)] = 512 * 1024 * 1024
    until_snapshot: Annotated[int, Field(gt=0)] | None = None
    selection: ErrorSelection | None = None


class JobFailure(Spec):
    """Why a job stopped. The class decides whether it is tried again."""

    error_class: ErrorClass
    error: str
    message: str
    next_step: str


class JobResult(Spec):
    """The batches that a run published, in order; `caught_up` when nothing was left."""

    topic: str
    hop: str
    caught_up: bool
    batches: tuple[BatchResult, ...]
    failure: JobFailure | None = None


def failure_of(error: Exception) -> JobFailure:
    """A failure in the words of its error."""
    return JobFailure(
        error_class=_error_class(error),
        error=type(error).__name__,
        message=str(error).splitlines()[0] if str(error) else type(error).__name__,
        next_step=error.next_step if isinstance(error, LeanOpsError) else "",
    )


def _error_class(error: Exception) -> ErrorClass:
    if isinstance(error, RetryableError):
        return "retryable"
    if isinstance(error, DataFaultError):
        return "data_fault"
    return "state_unknown" if isinstance(error, StateUnknownError) else "fatal"
