"""Events on their way to the tables of `ops_db`: what a batch tells the run history and the drift log.

A job leaves them in the outbox at once and goes on; a flush moves them to Iceberg many at a time. Ids and times
come from the batch, so that telling the same thing again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Self

from lean_ops.batch.batch_result import BatchResult
from lean_ops.config.findings import shown
from lean_ops.contracts import column_types
from lean_ops.ops_tables import DRIFT_LOG, JOB_RUN_HISTORY, OPS_TABLES
from lean_ops.tables import TableSpec

TABLES = {table.name: table for table in OPS_TABLES}
_PYTHON = {
    "string": str,
    "long": int,
    "double": float,
    "boolean": bool,
    "timestamptz": datetime,
    "date": date,
    "decimal(38, 6)": Decimal,
}
_MONEY = column_types.parse("decimal(38,6)")


@dataclass(frozen=True)
class OpsEvent:
    """One row of an ops table. Checked when it is made: in the outbox a wrong one would block all others."""

    table: str
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        types = {column.name: column.type for column in TABLES[self.table].columns}
        for name in ("event_id", self._time_column):
            if self.values.get(name) is None:
                raise ValueError(f"{self.table}: an event without {name}")
        for name, value in self.values.items():
            if value is not None and not _storable(value, types[name]):
                raise ValueError(f"{self.table}.{name}: {shown(value)} for {types[name]}")

    @property
    def event_id(self) -> str:
        return str(self.values["event_id"])

    @property
    def time(self) -> datetime:
        """The time that decides the partition: the same whenever the event is told."""
        moment: datetime = self.values[self._time_column]
        return moment.astimezone(UTC)

    @property
    def sequence(self) -> str:
        """The event's place in its table's queue: by time, then by id."""
        return f"{self.time.isoformat()}#{self.event_id}"

    def to_json(self) -> str:
        return json.dumps(dict(self.values), default=_text)

    @classmethod
    def from_json(cls, table: str, text: str) -> Self:
        types = {column.name: column.type for column in TABLES[table].columns}
        return cls(table, {name: _value(types[name], value) for name, value in json.loads(text).items()})

    @property
    def _time_column(self) -> str:
        return time_column(TABLES[self.table])


def time_column(table: TableSpec) -> str:
    """The column by whose days an ops table is partitioned."""
    return table.partitions[0].column


def batch_events(result: BatchResult) -> list[OpsEvent]:
    """Everything that a published batch has to tell."""
    return [_run(result), *(_drift(result, change) for change in result.drift)]


def _run(result: BatchResult) -> OpsEvent:
    counts = result.counts
    read, errors = counts["source_rows"], counts["error_messages"]
    return OpsEvent(
        JOB_RUN_HISTORY.name,
        {
            **_common(result, f"{result.batch_id}/run"),
            "started_ts": result.batch_time,
            "hop": result.hop,
            "status": "succeeded",
            "duration_seconds": float(sum(result.seconds.values())),
            "reason": result.reason,
            "start_snapshot": result.start_snapshot,
            "end_snapshot": result.end_snapshot,
            "first_day": result.first_day,
            "last_day": result.last_day,
            "published_snapshot": result.published_snapshot,
            "contract_version": result.contract_version,
            "records_read": read,
            "records_written": counts["added_rows"],
            "records_duplicate": read - counts["source_messages"] + counts["known_messages"],
            "records_error": errors,
            "error_rate": errors / read if read else 0.0,
            "result": result.model_dump_json(),
        },
    )


def _drift(result: BatchResult, change: Mapping[str, str]) -> OpsEvent:
    return OpsEvent(
        DRIFT_LOG.name,
        {
            **_common(result, f"{result.batch_id}/drift/{change['action']}/{change['column']}"),
            "detected_ts": result.batch_time,
            "column_name": change["column"],
            "action": change["action"],
            "source_layer": "curated" if result.hop == "curate" else "standardized",
            "old_value": change["old"],
            "new_value": change["new"],
            "details": json.dumps({"path": change["path"], "detail": change["detail"]}),
        },
    )


def _common(result: BatchResult, event_id: str) -> dict[str, str]:
    return {"event_id": event_id, "topic_name": result.topic, "batch_id": result.batch_id}


def _storable(value: Any, column_type: str) -> bool:
    if type(value) is not _PYTHON[column_type]:
        return False
    match value:
        case datetime():
            return value.tzinfo is not None
        case str():
            return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
        case Decimal():
            return column_types.is_exact(f"{value:f}", _MONEY)
        case bool():
            return True
        case int():
            return -(2**63) <= value < 2**63
    return True


def _text(value: date | Decimal) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _value(column_type: str, value: Any) -> Any:
    if value is None:
        return None
    if column_type == "timestamptz":
        return datetime.fromisoformat(value)
    if column_type == "date":
        return date.fromisoformat(value)
    return _PYTHON[column_type](value)
