"""The open errors of a topic: records whose latest attempt in `errors` is open. From one scan, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pyiceberg.table import Table

from lean_ops.aws import row_filters
from lean_ops.batch.batch_plan import ErrorSelection
from lean_ops.batch.next_batch import Volume

_FIELDS = ("record_id", "message_id", "publish_time", "attempt", "status", "error_code", "detected_at")


@dataclass(frozen=True)
class OpenError:
    """A record that waits for a contract under which it is valid."""

    message_id: str
    publish_time: datetime
    error_code: str
    detected_at: datetime


def open_errors(
    errors: Table, topic: str, selection: ErrorSelection | None = None, snapshot: int | None = None
) -> list[OpenError]:
    """The selected open errors, as of now or of a snapshot."""
    latest: dict[str, dict[str, Any]] = {}
    scan = errors.scan(row_filters.of_topic(topic), selected_fields=_FIELDS, snapshot_id=snapshot)
    for batch in scan.to_arrow_batch_reader():
        for row in batch.to_pylist():
            held = latest.get(row["record_id"])
            if held is None or held["attempt"] < row["attempt"]:
                latest[row["record_id"]] = row
    found = (
        OpenError(row["message_id"], row["publish_time"], row["error_code"], row["detected_at"])
        for row in latest.values()
        if row["status"] == "open"
    )
    return [each for each in found if _selected(each, selection or ErrorSelection())]


def by_day(errors: Iterable[OpenError]) -> Mapping[date, Volume]:
    """How many there are of each publish day."""
    days = Counter(each.publish_time.date() for each in errors)
    return {day: Volume(count, 0) for day, count in sorted(days.items())}


def _selected(each: OpenError, selection: ErrorSelection) -> bool:
    of_code = selection.error_code in (None, each.error_code)
    return of_code and (selection.since is None or each.detected_at >= selection.since)
