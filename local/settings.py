"""How the local stack differs from AWS: shorter times, smaller buffers. Handed to its processes in one variable."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lean_ops.errors import LeanOpsError

SETTINGS_VARIABLE = "LEAN_OPS_LOCAL_SETTINGS"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`lean-ops local up --set NAME=VALUE` changes one."""

    # Firehose: how long and how much it gathers before it commits, and what it holds at most.
    buffer_seconds: float = 1.0
    buffer_mb: float = 8.0
    spool_mb: float = 256.0
    commit_retry_seconds: float = 60.0
    # SQS and Lambda: a message that fails comes back after the visibility time, five times.
    visibility_seconds: int = 5
    batch_window_seconds: float = 0.5
    schedule_seconds: float = 5.0  # what a minute is to a schedule
    # The breaker's clock: an outage should be over in seconds here.
    breaker_window_seconds: int = 20
    breaker_cool_down_seconds: int = 5
    # Trouble on request, for tests: this share of the invocations loses its process at a random moment
    # within so many seconds, and this share of the calls to DynamoDB is throttled.
    crash_share: float = 0.0
    crash_after_seconds: float = 0.1
    throttled_share: float = 0.0


def from_variables(variables: Mapping[str, str]) -> Settings:
    """The settings that the supervisor handed down."""
    return msgspec.json.decode(variables.get(SETTINGS_VARIABLE, "{}"), type=Settings)


def from_assignments(assignments: list[str]) -> Settings:
    """The settings that a person gave as `name=value`."""
    pairs = dict(assignment.partition("=")[::2] for assignment in assignments)
    try:
        return msgspec.convert(pairs, Settings, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(Settings))
        raise LeanOpsError(f"--set {' '.join(assignments)}: {error}", next_step=f"one of {known}") from error
