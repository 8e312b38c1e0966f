"""The outbox in DynamoDB, and its flush to the tables of `ops_db`.

A flush may die anywhere: events are removed only after they are in their table, and what is in its table is never
appended again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from pyiceberg.catalog import Catalog

from lean_ops.aws import row_filters
from lean_ops.aws.append_missing import append_missing
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Lease, Leases
from lean_ops.aws.patience import Patience
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.outbox import TABLES, OpsEvent, batch_events, time_column
from lean_ops.batch.steps import Steps
from lean_ops.errors import RetryableError
from lean_ops.ingestion import chunks
from lean_ops.naming import Names

FLUSH_LEASE = "ops#flush"
_FLUSH_LIMIT = 20_000
_WRITE_LIMIT = 25


class Outbox:
    """The `outbox` table: one queue per ops table, in order of time."""

    def __init__(self, dynamodb: Any, names: Names, *, patience: Patience | None = None) -> None:
        self._dynamodb = dynamodb
        self._table = names.state_table("outbox")
        self._patience = patience or Patience()

    def put(self, result: BatchResult) -> None:
        """Everything that a batch has to tell; again, and it replaces itself."""
        self.add(batch_events(result))

    def add(self, events: Iterable[OpsEvent]) -> None:
        """Leave events for the next flush."""
        self._write(
            {"PutRequest": {"Item": _key(event) | {"event": {"B": zlib.compress(event.to_json().encode())}}}}
            for event in events
        )

    def waiting(self, table: str, limit: int = _FLUSH_LIMIT) -> list[OpsEvent]:
        """The oldest events for an ops table."""
        events: list[OpsEvent] = []
        pages = self._dynamodb.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="stream = :stream",
            ExpressionAttributeValues={":stream": {"S": table}},
            ConsistentRead=True,
        )
        for page in pages:
            events += [
                OpsEvent.from_json(table, zlib.decompress(item["event"]["B"]).decode())
                for item in page["Items"]
            ]
            if len(events) >= limit:
                break
        return events[:limit]

    def remove(self, events: Iterable[OpsEvent]) -> None:
        """Forget events that are in their table."""
        self._write({"DeleteRequest": {"Key": _key(event)}} for event in events)

    def _write(self, requests: Iterable[dict[str, Any]]) -> None:
        def attempt(pending: dict[str, Any]) -> dict[str, Any]:
            left: dict[str, Any] = self._dynamodb.batch_write_item(RequestItems=pending)["UnprocessedItems"]
            return left

        for run in chunks.by_count(list(requests), _WRITE_LIMIT):
            if self._patience.exhaust({self._table: run}, attempt):
                raise RetryableError("DynamoDB left writes undone", table=self._table)


def flush(catalog: Catalog, outbox: Outbox, leases: Leases, owner: str, steps: Steps) -> dict[str, int]:
    """Move what waits to its tables, one commit each. Returns how many rows each table got."""
    appended: dict[str, int] = {}
    with Lease(leases, FLUSH_LEASE, owner) as lease:
        for name in TABLES:
            with steps(f"read_{name}"):
                events = outbox.waiting(name)
            if events:
                lease.check()
                with steps(f"append_{name}"):
                    appended[name] = _append(catalog, name, events)
                with steps(f"remove_{name}"):
                    outbox.remove(events)
    return appended


def _append(catalog: Catalog, name: str, events: Sequence[OpsEvent]) -> int:
    spec = TABLES[name]
    ensure_table(catalog, spec)
    days = [event.time.date() for event in events]
    return append_missing(
        catalog,
        spec.identifier,
        [event.values for event in events],
        key="event_id",
        where=row_filters.on_days(time_column(spec), min(days), max(days)),
    )


def _key(event: OpsEvent) -> dict[str, dict[str, str]]:
    return {"stream": {"S": event.table}, "sequence": {"S": event.sequence}}
