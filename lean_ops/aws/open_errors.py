"""The open errors of a topic: records whose latest attempt in `errors` is open. From one scan, without Spark.

A record that a replay resolved is open again when Curated was rolled back over that replay: nobody reads it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pyiceberg.table import Table

from lean_ops.aws import lake, row_filters
from lean_ops.batch.batch_plan import ErrorSelection
from lean_ops.batch.next_batch import Volume

_FIELDS = (
    "record_id",
    "message_id",
    "publish_time",
    "attempt",
    "status",
    "error_code",
    "detected_at",
    "batch_id",
)


@dataclass(frozen=True)
class OpenError:
    """A record that waits for a contract under which it is valid."""

    message_id: str
    publish_time: datetime
    error_code: str
    detected_at: datetime


def open_errors(
    errors: Table,
    topic: str,
    selection: ErrorSelection | None = None,
    snapshot: int | None = None,
    lost: Collection[str] = (),
) -> list[OpenError]:
    """The selected open errors, as of now or of a snapshot; `lost` are replays that count no longer."""
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
        if row["status"] == "open" or row["batch_id"] in lost
    )
    return [each for each in found if _selected(each, selection or ErrorSelection())]


def lost_replays(errors: Table, curated: Table, topic: str) -> frozenset[str]:
    """Replays that resolved errors and are no longer in Curated's history, although it goes back far enough."""
    published, since = lake.batches(curated)
    fields = ("batch_id", "status", "detected_at")
    where = row_filters.both(row_filters.of_topic(topic), row_filters.among("status", ["resolved"]))
    rows = errors.scan(where, selected_fields=fields).to_arrow().to_pylist()
    return frozenset(
        row["batch_id"]
        for row in rows
        if row["batch_id"].startswith("replay-")
        and row["batch_id"] not in published
        and row["detected_at"] >= since
    )


def by_day(errors: Iterable[OpenError]) -> Mapping[date, Volume]:
    """How many there are of each publish day."""
    days = Counter(each.publish_time.date() for each in errors)
    return {day: Volume(count, 0) for day, count in sorted(days.items())}


def _selected(each: OpenError, selection: ErrorSelection) -> bool:
    of_code = selection.error_code in (None, each.error_code)
    return of_code and (selection.since is None or each.detected_at >= selection.since)
