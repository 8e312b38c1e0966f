"""What a topic is: one reviewed YAML file, everything beyond three keys with a default."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from lean_ops.config.findings import UnfitError
from lean_ops.config.specs import Spec
from lean_ops.naming import TOPIC_LENGTH, nearest_topic_name, topic_name_fault
from lean_ops.payload import payload_path

EngineKind = Literal["local", "glue", "emr_serverless"]
EngineSize = Literal["small", "medium", "large"]
PayloadPath = Annotated[str, AfterValidator(payload_path.check)]
Rate = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


def _topic_name(name: str) -> str:
    fault = topic_name_fault(name)
    if fault:
        raise UnfitError(fault, nearest_topic_name(name))
    return name


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("text that is not blank")
    return text


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values):
        raise ValueError("each of them once")
    return values


# Not strict, because YAML and JSON have lists and no tuples.
_LIST = Field(strict=False, json_schema_extra={"uniqueItems": True})

Text = Annotated[
    str, Field(max_length=2000, json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)
]
Texts = Annotated[tuple[Text, ...], _LIST, AfterValidator(_each_once)]
PayloadPaths = Annotated[tuple[PayloadPath, ...], _LIST, AfterValidator(_each_once)]
TopicName = Annotated[
    str,
    AfterValidator(_topic_name),
    WithJsonSchema({"type": "string", "pattern": f"^[a-z][a-z0-9_]{{0,{TOPIC_LENGTH - 1}}}$"}),
]


class ScheduleSpec(Spec):
    """How often the topic's DAG runs. A stable hash spreads the minute over topics."""

    every_minutes: Literal[5, 10, 15, 20, 30, 60] = 15
    enabled: bool = True


class EngineSpec(Spec):
    """Where the Spark jobs run; None takes the environment's choice."""

    kind: EngineKind | None = None
    size: EngineSize | None = None


class SourceSpec(Spec):
    """Where the messages come from."""

    subscription: Text | None = None


class KeysSpec(Spec):
    """Payload paths of the keys. The envelope's own value wins; a path fills a missing one."""

    idempotency_key: PayloadPath | None = None
    period_reference: PayloadPath | None = None


class DriftSpec(Spec):
    """What happens when a payload has columns that the Standardized table lacks."""

    new_column: Literal["add", "ignore", "fail"] = "add"
    max_columns: Annotated[int, Field(ge=1, le=2000)] = 500
    removed_after: Annotated[Count, Field(description="Days without the column.")] = 30


class CuratedSpec(Spec):
    """`period` partitions by period_reference; `period_day` adds the publish day and makes merges dearer."""

    partitioning: Literal["period", "period_day"] = "period"


class QualitySpec(Spec):
    """Limits that alert or stop. Rates count from `min_records` on: one bad record in five pages nobody."""

    error_rate: Rate = 0.05
    cde_violation_rate: Rate = 0.10
    reconciliation_layer_rate: Rate = 0.01
    reconciliation_source_rate: Rate = 0.005
    min_records: Count = 100
    freshness_minutes: Count = 60


class RetentionSpec(Spec):
    """How long Iceberg snapshots are kept."""

    snapshot_days: Count = 90


class MaintenanceSpec(Spec):
    """Compaction: target file size, and how many days are hot (left alone while they still change)."""

    target_file_mb: Annotated[int, Field(ge=16, le=1024)] = 256
    hot_days: Count = 2


class AlertsSpec(Spec):
    """Who hears about this topic, besides the environment's own targets."""

    channel: Text | None = None
    severity: Literal["low", "normal", "high"] = "normal"


class TopicSpec(Spec):
    """One topic."""

    topic: TopicName
    owner: Text
    description: Text
    tags: Texts = ()
    schedule: ScheduleSpec = ScheduleSpec()
    engine: EngineSpec = EngineSpec()
    source: SourceSpec = SourceSpec()
    keys: KeysSpec = KeysSpec()
    drift: DriftSpec = DriftSpec()
    standardized_lifo: Literal["none", "batch"] = "none"
    curated: CuratedSpec = CuratedSpec()
    quality: QualitySpec = QualitySpec()
    totals: PayloadPaths = ()
    retention: RetentionSpec = RetentionSpec()
    maintenance: MaintenanceSpec = MaintenanceSpec()
    alerts: AlertsSpec = AlertsSpec()
    lane: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")] | None = None
