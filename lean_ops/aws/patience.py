"""How calls to AWS are repeated: only what is left, with jittered, growing pauses, and not for ever.

botocore's own retries are switched off for such clients (ONE_ATTEMPT): they would repeat whole calls inside
ours, and cannot resend just the refused entries of a batch.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lean_ops.errors import RetryableError

Work = TypeVar("Work")

ONE_ATTEMPT = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=5)

# Refused before anything was done: repeating is always safe.
_THROTTLED = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_SERVER_ERROR = 500


@dataclass(eq=False)
class Deadline:
    """When the attempts of one invocation must end, whichever ports make them; each invocation sets it anew."""

    at: float = math.inf


NEVER = Deadline()


@dataclass(frozen=True)
class Patience:
    """At most 5 attempts, and none begun after 12 seconds, or after the deadline that several may share.

    A function has 60 seconds for its whole batch. One that waited longer for a dependency that hangs would
    time out, and after five time-outs its messages would be dead letters.
    """

    attempts: int = 5
    seconds: float = 12.0
    first_pause: float = 0.1
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    deadline: Deadline = NEVER

    def exhaust(self, work: Work, attempt: Callable[[Work], Work], *, only_throttled: bool = False) -> Work:
        """Call `attempt` with what is left until nothing is. Returns what is still left when patience ends.

        A passing error leaves all the work; any other, or a passing one at the end, is a RetryableError.
        """
        passes = _is_throttled if only_throttled else _is_passing
        started = self.clock()
        if started > self.deadline.at:
            raise RetryableError("OutOfTime")
        for round_number in range(self.attempts):
            if round_number:
                longest = min(self.longest_pause, self.first_pause * 2**round_number)
                self.sleep(longest * (0.5 + self.jitter() / 2))
            try:
                work = attempt(work)
            except (ClientError, BotoCoreError) as error:
                if self._is_over(round_number, started) or not passes(error):
                    raise RetryableError(code_of(error)) from error
                continue
            if not work or self._is_over(round_number, started):
                break
        return work

    def _is_over(self, round_number: int, started: float) -> bool:
        now = self.clock()
        return round_number == self.attempts - 1 or now - started > self.seconds or now > self.deadline.at


PATIENT = Patience()


@contextmanager
def dependency() -> Iterator[None]:
    """Turns a failure of AWS into a RetryableError whose text is the error's code."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise RetryableError(code_of(error)) from error


def code_of(error: ClientError | BotoCoreError) -> str:
    """A word that can be aggregated; the full text may quote data."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code") or "Unknown")
    return type(error).__name__


def _is_throttled(error: ClientError | BotoCoreError) -> bool:
    return code_of(error) in _THROTTLED


def _is_passing(error: ClientError | BotoCoreError) -> bool:
    if isinstance(error, BotoCoreError):
        return True  # no connection, or no answer in time
    metadata: Any = error.response.get("ResponseMetadata", {})
    return _is_throttled(error) or metadata.get("HTTPStatusCode", 0) >= _SERVER_ERROR
