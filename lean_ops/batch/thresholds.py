"""When the faults of a batch stop it, and when they only alert."""

from __future__ import annotations

from dataclasses import dataclass

from lean_ops.config.topics import QualitySpec
from lean_ops.errors import DataFaultError


class CdeSpikeError(DataFaultError):
    """Too many records lack a critical data element: more likely the source or the contract than the records."""


@dataclass(frozen=True)
class Verdict:
    """What a batch's records did wrong, in numbers."""

    records: int
    invalid: int
    cde_violations: int

    def check(self, limits: QualitySpec, *, topic: str, batch_id: str) -> None:
        """Stop a batch with too many missing CDEs, before anything of it is written."""
        if self._exceeds(self.cde_violations, limits.cde_violation_rate, limits):
            raise CdeSpikeError(
                f"{self.cde_violations} of {self.records} records lack a critical data element, "
                f"more than the {limits.cde_violation_rate:.1%} that topics/{topic}.yaml allows",
                next_step=f'deploy a mended contract, or: lean-ops batch accept {batch_id} --reason "…"',
                topic=topic,
                batch_id=batch_id,
            )

    def alerts(self, limits: QualitySpec, topic: str) -> tuple[str, ...]:
        """What somebody should hear about although the batch goes on."""
        if not self._exceeds(self.invalid, limits.error_rate, limits):
            return ()
        return (
            (
                f"{topic}: {self.invalid} of {self.records} records are invalid, "
                f"more than {limits.error_rate:.1%} of the batch"
            ),
        )

    def _exceeds(self, count: int, rate: float, limits: QualitySpec) -> bool:
        return self.records >= limits.min_records and count > rate * self.records
