"""Writes to the drift log what was there before it was kept: an ADDED event for every column that has none.

It may run as often as one likes: a column is told once, and the moment is when it first appears in the table's own
history, so that even two runs at once tell the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from lean_ops import naming
from lean_ops.aws.outbox import Outbox
from lean_ops.batch.outbox import OpsEvent
from lean_ops.contracts.history import ADDED
from lean_ops.contracts.spec import RESERVED_NAMES
from lean_ops.ops_tables import DRIFT_LOG
from lean_ops.payload.columns import RESERVED
from lean_ops.tables import KEY_HASH

_NOT_OF_THE_PAYLOAD: Mapping[str, frozenset[str]] = {
    "standardized": frozenset(RESERVED),
    "curated": frozenset({*RESERVED_NAMES, KEY_HASH}),
}
_ALL = 1_000_000


def catch_up(catalog: Catalog, outbox: Outbox, topics: Iterable[str]) -> list[OpsEvent]:
    """Tell the columns that were never told; returns what was told."""
    logged = _logged(catalog, outbox)
    events = [
        _event(topic, layer, table, column)
        for topic in topics
        for layer, table in _tables(catalog, topic)
        for column in table.schema().fields
        if column.name not in _NOT_OF_THE_PAYLOAD[layer] and (topic, layer, column.name) not in logged
    ]
    outbox.add(events)
    return events


def _logged(catalog: Catalog, outbox: Outbox) -> set[tuple[str, str, str]]:
    """Topic, layer and name of every column whose coming is in the log, or on its way there."""
    told = [event.values for event in outbox.waiting(DRIFT_LOG.name, _ALL)]
    try:
        fields = ("topic_name", "source_layer", "column_name", "action")
        told += catalog.load_table(DRIFT_LOG.identifier).scan(selected_fields=fields).to_arrow().to_pylist()
    except NoSuchTableError:
        pass
    return {
        (row["topic_name"], row["source_layer"], row["column_name"]) for row in told if row["action"] == ADDED
    }


def _tables(catalog: Catalog, topic: str) -> Iterator[tuple[str, Table]]:
    places = {"standardized": naming.standardized_table(topic), "curated": naming.curated_table(topic)}
    for layer, identifier in places.items():
        try:
            yield layer, catalog.load_table(identifier)
        except NoSuchTableError:
            continue


def _event(topic: str, layer: str, table: Table, column: NestedField) -> OpsEvent:
    return OpsEvent(
        DRIFT_LOG.name,
        {
            "event_id": f"{topic}/catch-up/{layer}/{column.name}",
            "topic_name": topic,
            "detected_ts": _first_seen(table, column),
            "column_name": column.name,
            "action": ADDED,
            "source_layer": layer,
            "new_value": str(column.field_type),
            "details": json.dumps({"catch_up": True, "path": column.doc or ""}),
        },
    )


def _first_seen(table: Table, column: NestedField) -> datetime:
    """When the first snapshot that knows the column was committed, as far back as expiry has left them."""
    holding = {each.schema_id for each in table.metadata.schemas if column.field_id in each.field_ids}
    moments = [each.timestamp_ms for each in table.metadata.snapshots if each.schema_id in holding]
    return datetime.fromtimestamp(min(moments, default=table.metadata.last_updated_ms) / 1000, UTC)
