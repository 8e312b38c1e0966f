"""How a failure of ours becomes one of Airflow's: its class decides whether the task is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from lean_ops.batch.job import JobFailure, JobResult, failure_of
from lean_ops.errors import LeanOpsError


class TriedAgainError(AirflowException):
    """The same task may succeed later."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(_text(failure))
        self.failure = failure


class ForGoodError(AirflowFailException):
    """A retry would fail the same way, or must not happen before somebody has looked."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(_text(failure))
        self.failure = failure


def raise_failure(failure: JobFailure) -> None:
    """Fail the task as the failure's class wants it."""
    if failure.error_class == "retryable":
        raise TriedAgainError(failure)
    raise ForGoodError(failure)


@contextmanager
def told_to_airflow() -> Iterator[None]:
    """Errors of ours leave as Airflow's; all others are left to Airflow, which tries again."""
    try:
        yield
    except LeanOpsError as error:
        raise_failure(failure_of(error))


def failure_behind(error: BaseException | str | None) -> JobFailure:
    """What is known of a failed task: the job's own failure, or its exception in the same words."""
    if isinstance(error, TriedAgainError | ForGoodError):
        return error.failure
    if isinstance(error, Exception):
        return failure_of(error)
    # Airflow cut the task off: nobody knows how far it got.
    return JobFailure(
        error_class="state_unknown",
        error=type(error).__name__ if isinstance(error, BaseException) else "TaskLost",
        message=str(error) if error else "the task ended without a word",
        next_step="",
    )


def checked(result: JobResult) -> JobResult:
    """A job's answer, unless it tells of a failure."""
    if result.failure is not None:
        raise_failure(result.failure)
    return result


def _text(failure: JobFailure) -> str:
    step = f"; next: {failure.next_step}" if failure.next_step else ""
    return f"{failure.error} ({failure.error_class}): {failure.message}{step}"
