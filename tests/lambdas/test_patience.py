"""How calls are repeated: what is left, while it may help, and not for ever."""

from __future__ import annotations

from itertools import count

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lean_ops.aws.patience import Deadline, Patience
from lean_ops.errors import RetryableError

pauses: list[float] = []
PATIENT = Patience(sleep=pauses.append, jitter=lambda: 1.0)


def failure(code: str, status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Anything")  # type: ignore[arg-type]


def attempts_of(error: Exception, patience: Patience = PATIENT, **options: bool) -> int:
    made = 0

    def attempt(_: list[int]) -> list[int]:
        nonlocal made
        made += 1
        raise error

    with pytest.raises(RetryableError):
        patience.exhaust([1], attempt, **options)
    return made


def test_only_what_is_left_is_attempted_again() -> None:
    asked: list[list[int]] = []

    def attempt(work: list[int]) -> list[int]:
        asked.append(work)
        return work[2:]

    assert PATIENT.exhaust([1, 2, 3, 4, 5], attempt) == []
    assert asked == [[1, 2, 3, 4, 5], [3, 4, 5], [5]]


def test_what_is_still_left_at_the_end_is_returned_and_pauses_grow_to_a_ceiling() -> None:
    pauses.clear()
    assert PATIENT.exhaust([1], lambda work: work) == [1]
    assert pauses == sorted(pauses)
    assert len(pauses) == PATIENT.attempts - 1
    assert pauses[-1] <= PATIENT.longest_pause


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (failure("ThrottlingException"), PATIENT.attempts),
        (failure("ServiceUnavailableException", 503), PATIENT.attempts),
        (ReadTimeoutError(endpoint_url="x"), PATIENT.attempts),
        (failure("ResourceNotFoundException"), 1),
        (failure("AccessDeniedException"), 1),
    ],
)
def test_only_an_error_that_may_pass_is_waited_out(error: Exception, attempts: int) -> None:
    assert attempts_of(error) == attempts


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (failure("ThrottlingException"), PATIENT.attempts),
        (failure("InternalServerError", 500), 1),
        (ReadTimeoutError(endpoint_url="x"), 1),
    ],
)
def test_a_call_that_may_have_happened_is_not_repeated_where_that_would_count_twice(
    error: Exception, attempts: int
) -> None:
    assert attempts_of(error, only_throttled=True) == attempts


def test_a_dependency_that_hangs_does_not_use_up_the_functions_time() -> None:
    clock = count(0, 5)
    hanging = Patience(sleep=pauses.append, clock=lambda: float(next(clock)))
    assert attempts_of(ReadTimeoutError(endpoint_url="x"), hanging) == 3


def test_calls_that_share_a_deadline_end_together_and_none_is_begun_after_it() -> None:
    clock, shared = count(0, 5), Deadline(at=12.0)
    hurried = Patience(sleep=pauses.append, clock=lambda: float(next(clock)), deadline=shared, seconds=60.0)
    assert attempts_of(ReadTimeoutError(endpoint_url="x"), hurried) == 3
    assert attempts_of(ReadTimeoutError(endpoint_url="x"), hurried) == 0
