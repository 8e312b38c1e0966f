"""One root for every failure. The class decides what Airflow does next; the attributes carry the facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lean_ops.config.findings import Finding


class LeanOpsError(Exception):
    """Something went wrong; `next_step` names the command or edit that helps."""

    def __init__(self, message: str, *, next_step: str = "", **facts: object) -> None:
        super().__init__(message)
        self.next_step = next_step
        self.facts = facts


class RetryableError(LeanOpsError):
    """The same call may succeed later: a throttle, a lost race, a held lease."""


class DataFaultError(LeanOpsError):
    """The data needs a decision by a person: a retry would fail the same way."""


class StateUnknownError(LeanOpsError):
    """An effect may or may not have happened: look before the next attempt."""


class UsageError(LeanOpsError):
    """What was asked for cannot be done in the way it was asked."""


class NotFoundError(UsageError):
    """A topic, file or record that was named does not exist."""


class ConfigError(LeanOpsError):
    """Reviewed data (topics, contracts, environments) is wrong. Carries every finding, not the first one."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        count = len(findings)
        lines = "\n".join(str(finding) for finding in findings)
        super().__init__(f"{count} finding{'s' if count != 1 else ''}:\n{lines}")
        self.findings = tuple(findings)
