"""What drifted in a span of time, by topic: read from the drift log, told to people."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lean_ops.aws import row_filters
from lean_ops.ops_tables import DRIFT_LOG

_FIELDS = ("topic_name", "column_name", "action", "detected_ts")


@dataclass(frozen=True)
class TopicDrift:
    """The columns of a topic that changed, by what happened to them."""

    topic: str
    columns: dict[str, list[str]]


def drifted(catalog: Catalog, start: datetime, end: datetime) -> list[TopicDrift]:
    """Every topic with drift from `start` on and before `end`, by name."""
    try:
        table = catalog.load_table(DRIFT_LOG.identifier)
    except NoSuchTableError:
        return []
    days = row_filters.on_days("detected_ts", start.date(), end.date())
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in table.scan(days, selected_fields=_FIELDS).to_arrow().to_pylist():
        if start <= row["detected_ts"] < end:
            found[row["topic_name"]][row["action"]].add(row["column_name"])
    return [
        TopicDrift(topic, {action: sorted(columns) for action, columns in sorted(changes.items())})
        for topic, changes in sorted(found.items())
    ]
