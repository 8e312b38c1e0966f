"""The tables of `ops_db`: what happened, kept for years. Each row is an event that is written exactly once.

`event_id` is the same for every repetition of an event, and so is the time that decides its partition: both come
from the batch's plan, never from the clock of whoever writes.
"""

from __future__ import annotations

from lean_ops import naming
from lean_ops.tables import EVERY_TABLE, MANY_WRITERS, Column, Partition, TableSpec, long_bounds


def _events(name: str, time: str, *columns: Column) -> TableSpec:
    """A table of events, by the day of its time column."""
    return TableSpec(
        naming.OPS_DATABASE,
        name,
        (
            Column("event_id", "string", required=True),
            Column("topic_name", "string"),
            Column("batch_id", "string"),
            Column(time, "timestamptz", required=True),
            *columns,
        ),
        (Partition(time, "day"),),
        properties=EVERY_TABLE | MANY_WRITERS | long_bounds("event_id"),
    )


TOPIC_REGISTRY = _events(
    "topic_registry",
    "observed_ts",
    Column("source", "string", doc="Where the topic was found."),
    Column("onboarded", "boolean", doc="Whether it has a topic file."),
    Column("details", "string"),
)

JOB_RUN_HISTORY = _events(
    "job_run_history",
    "started_ts",
    Column("hop", "string"),
    Column("status", "string"),
    Column("duration_seconds", "double"),
    Column("reason", "string", doc="incremental, first_read or fallback."),
    Column("start_snapshot", "long", doc="Of the source, exclusive; none when everything was read."),
    Column("end_snapshot", "long", doc="Of the source, inclusive."),
    Column("first_day", "date", doc="Of the slice by publish day, where the range was cut."),
    Column("last_day", "date"),
    Column("published_snapshot", "long", doc="Of the target."),
    Column("contract_version", "string"),
    Column("records_read", "long"),
    Column("records_written", "long"),
    Column("records_duplicate", "long"),
    Column("records_error", "long"),
    Column("error_rate", "double"),
    Column("result", "string", doc="The whole result as JSON."),
)

SCHEMA_VERSIONS = _events(
    "schema_versions",
    "changed_ts",
    Column("version", "string"),
    Column("previous_version", "string"),
    Column("sha256", "string"),
    Column("classification", "string", doc="How the change relates to the version before."),
    Column("changed_by", "string"),
    Column("diff", "string"),
)

DRIFT_LOG = _events(
    "drift_log",
    "detected_ts",
    Column("column_name", "string"),
    Column(
        "action", "string", doc="ADDED, REMOVED, TYPE_CHANGED, or what a contract changed: PII_ON and such."
    ),
    Column("source_layer", "string", doc="raw, standardized or curated."),
    Column("old_value", "string"),
    Column("new_value", "string"),
    Column("details", "string"),
)

RECONCILIATION_LOG = _events(
    "reconciliation_log",
    "checked_ts",
    Column("layer", "string", doc="source_raw, raw_standardized or standardized_curated."),
    Column("window_start", "timestamptz"),
    Column("window_end", "timestamptz"),
    Column("expected_count", "long"),
    Column("actual_count", "long"),
    Column("variance_rate", "double"),
    Column("threshold_rate", "double"),
    Column("balanced", "boolean"),
    Column("details", "string"),
)

RECONCILIATION_RESULTS = _events(
    "reconciliation_results",
    "computed_ts",
    Column("period_reference", "string"),
    Column("record_count", "long"),
    Column("total_name", "string", doc="The payload path that was summed."),
    Column("total_amount", "decimal(38, 6)"),
    Column("details", "string"),
)

OPS_TABLES = (
    TOPIC_REGISTRY,
    JOB_RUN_HISTORY,
    SCHEMA_VERSIONS,
    DRIFT_LOG,
    RECONCILIATION_LOG,
    RECONCILIATION_RESULTS,
)
