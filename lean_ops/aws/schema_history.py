"""Reads the history of contracts: what is in its table, and what still waits in the outbox."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lean_ops.aws import row_filters
from lean_ops.aws.outbox import Outbox
from lean_ops.ops_tables import SCHEMA_VERSIONS
from lean_ops.tables import TableSpec


def versions(catalog: Catalog, outbox: Outbox, topic: str) -> list[dict[str, Any]]:
    """Every contract of a topic that came into force, in order of time."""
    rows = events(catalog, outbox, SCHEMA_VERSIONS, topic)
    return sorted(rows, key=lambda row: (row["changed_ts"], row["event_id"]))


def events(catalog: Catalog, outbox: Outbox, table: TableSpec, topic: str) -> list[dict[str, Any]]:
    """The events of a topic, each once, flushed or not."""
    names = [column.name for column in table.columns]
    waiting = [event for event in outbox.waiting(table.name) if event.values.get("topic_name") == topic]
    found = {event.event_id: {name: event.values.get(name) for name in names} for event in waiting}
    try:
        stored = catalog.load_table(table.identifier)
    except NoSuchTableError:
        return list(found.values())
    rows = stored.scan(row_filters.of_topic(topic)).to_arrow().to_pylist()
    return list((found | {row["event_id"]: row for row in rows}).values())
