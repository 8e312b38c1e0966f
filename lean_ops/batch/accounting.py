"""The books of a batch: every message of the source ends in exactly one outcome, or nothing is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from lean_ops.errors import DataFaultError

# Where a message of the source can be: rows and error rows of this batch, and either of an earlier one (`before`).
OUTCOMES = ("added", "before", "errors")


class UnbalancedError(DataFaultError):
    """The audit found a message with no outcome, or with more than one."""


def stop_unless_balanced(faults: list[str], batch_id: str, offenders: Callable[[], list[str]]) -> None:
    """Name the faults of a batch and some of the records they concern, if there are any faults."""
    if faults:
        some = offenders()
        raise UnbalancedError(
            f"batch {batch_id} does not balance: {'; '.join(faults)} (such as {', '.join(some)})",
            next_step=f"lean-ops explain {some[0] if some else 'MESSAGE_ID'}",
            batch_id=batch_id,
            faults=faults,
        )


@dataclass(frozen=True)
class Books:
    """Counts and fingerprints, all read back from tables."""

    source_rows: int
    source_messages: int
    source_fingerprint: int
    added_rows: int
    added_fingerprint: int
    known_messages: int
    known_fingerprint: int
    error_messages: int
    error_fingerprint: int
    missing: int
    doubled: int
    foreign: int
    superseded_messages: int = 0
    superseded_fingerprint: int = 0

    @property
    def redelivered_rows(self) -> int:
        """Rows of the source that repeat a message of the same range or of an earlier one."""
        return self.source_rows - self.source_messages + self.known_messages

    def faults(self) -> list[str]:
        """Everything that does not add up, in words."""
        accounted = self.added_rows + self.known_messages + self.error_messages + self.superseded_messages
        prints = (
            self.added_fingerprint
            + self.known_fingerprint
            + self.error_fingerprint
            + self.superseded_fingerprint
        )
        checks = (
            (self.missing != self.superseded_messages, f"{self.missing} messages have no outcome"),
            (self.doubled, f"{self.doubled} messages have more than one outcome"),
            (self.foreign, f"{self.foreign} rows come from no message of the range"),
            (
                accounted != self.source_messages,
                f"{self.source_messages} messages, {accounted} accounted for",
            ),
            (prints != self.source_fingerprint, "the fingerprints differ"),
        )
        return [text for fault, text in checks if fault]

    def check(self, batch_id: str, offenders: Callable[[], list[str]]) -> None:
        """Stop the batch unless it balances; only then are some of the offending messages looked up."""
        stop_unless_balanced(self.faults(), batch_id, offenders)

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class Audit:
    """The books of a batch, and how to name some messages that do not add up."""

    books: Books
    offenders: Callable[[], list[str]]
