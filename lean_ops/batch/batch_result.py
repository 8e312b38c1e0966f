"""What a batch did: one JSON object, printed by the job, kept in the run history."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Self

from lean_ops.batch.batch_plan import BatchPlan
from lean_ops.config.specs import Spec


class BatchResult(Spec):
    """Counts per outcome and fingerprints (as text: they exceed what JSON numbers can hold everywhere)."""

    batch_id: str
    topic: str
    hop: str
    reason: str
    start_snapshot: int | None
    end_snapshot: int
    first_day: date | None
    last_day: date | None
    contract_version: str
    batch_time: datetime
    published_snapshot: int
    counts: dict[str, int]
    fingerprints: dict[str, str]
    drift: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    alerts: tuple[str, ...] = ()
    seconds: dict[str, float]

    @classmethod
    def of(cls, plan: BatchPlan, **outcome: Any) -> Self:
        """The result of a plan."""
        named = {name: getattr(plan, name) for name in cls.model_fields if hasattr(plan, name)}
        return cls(**named, **outcome)


class PreparedResult(Spec):
    """What is kept beside the plan before it is published: enough to settle the batch after any crash."""

    result: BatchResult
    columns: str | None
