"""Plans for tests: a range is enough, the rest is the same for all."""

from __future__ import annotations

from datetime import UTC, datetime

from lean_ops.batch.batch_plan import BatchPlan, BatchSettings, Hop, SourceRange
from lean_ops.config.topics import DriftSpec, KeysSpec, QualitySpec, TopicSpec


def settings(rate: float = 0.05) -> BatchSettings:
    return BatchSettings.of(
        TopicSpec(
            topic="orders",
            owner="platform",
            description="Orders.",
            keys=KeysSpec(idempotency_key="order.id"),
            drift=DriftSpec(max_columns=40),
            quality=QualitySpec(error_rate=rate),
        )
    )


def plan_of(
    source: SourceRange,
    *,
    hop: Hop = "standardize",
    topic: str = "orders",
    batch_time: datetime = datetime(2026, 11, 18, 12, tzinfo=UTC),
    rate: float = 0.05,
) -> BatchPlan:
    return BatchPlan(
        **dict(source),
        hop=hop,
        topic=topic,
        source_table="iceberg_raw_db.orders_staging",
        contract_version="1.0",
        contract_sha256="a" * 64,
        spec_sha256="b" * 64,
        settings=settings(rate),
        pii_key_id=None,
        batch_time=batch_time,
        last_column_id=7,
    )
