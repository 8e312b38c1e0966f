"""The books of a batch that goes into Curated: every record current, superseded by a greater version, or an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from lean_ops.batch.accounting import stop_unless_balanced


@dataclass(frozen=True)
class CuratedBooks:
    """Counts and fingerprints, all read back from tables. `added_rows` and `updated_rows` are the commits' own."""

    source_rows: int
    source_fingerprint: int
    current_messages: int
    current_fingerprint: int
    superseded_messages: int
    superseded_fingerprint: int
    error_messages: int
    error_fingerprint: int
    missing: int
    doubled: int
    foreign: int
    wrong_rows: int
    valid_keys: int
    known_keys: int
    moved_keys: int
    added_rows: int
    updated_rows: int

    def faults(self) -> list[str]:
        """Everything that does not add up, in words."""
        accounted = self.current_messages + self.superseded_messages + self.error_messages
        prints = self.current_fingerprint + self.superseded_fingerprint + self.error_fingerprint
        new_keys = self.valid_keys - self.known_keys
        checks = (
            (self.missing, f"{self.missing} records have no outcome"),
            (self.doubled, f"{self.doubled} records have two outcomes, or a key with two rows"),
            (self.foreign, f"{self.foreign} rows come from no record of the batch"),
            (
                self.wrong_rows,
                f"{self.wrong_rows} keys lost their row, their newest version or their first one",
            ),
            (accounted != self.source_rows, f"{self.source_rows} records, {accounted} accounted for"),
            (prints != self.source_fingerprint, "the fingerprints differ"),
            (self.added_rows != new_keys, f"{new_keys} new keys, {self.added_rows} rows added"),
            (
                self.updated_rows != self.moved_keys,
                f"{self.moved_keys} keys to update, {self.updated_rows} rows updated",
            ),
        )
        return [text for fault, text in checks if fault]

    def check(self, batch_id: str, offenders: Callable[[], list[str]]) -> None:
        """Stop the batch unless it balances; only then are some of the offending records looked up."""
        stop_unless_balanced(self.faults(), batch_id, offenders)

    def as_dict(self) -> dict[str, int]:
        """Under the names that every hop's result has: a record of Standardized is a message, and stands once."""
        return asdict(self) | {"source_messages": self.source_rows, "known_messages": 0}
