"""Appends to and reads from the shared error tables.

Exactly-once without a lock: the rows of the same cause are looked up at one snapshot, and the append is
committed only if the table is still at that snapshot. When another writer was faster the look-up is repeated,
so of two that append the same attempt exactly one succeeds, and is told so.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import ALWAYS_TRUE, Table

from lean_ops import tables
from lean_ops.aws import row_filters
from lean_ops.errors import RetryableError
from lean_ops.identity import Hop, Identity, to_datetime, to_micros
from lean_ops.ingestion import chunks
from lean_ops.ingestion.attempts import Attempt, Standing, Status, numbered
from lean_ops.tables import TableSpec

# Eight writers with the usual 4 attempts lost a quarter of their commits.
COMMIT_ATTEMPTS = 30
_LOOK_UP = 5_000

_IDENTITY = ("record_id", "topic_name", "message_id", "publish_time")
_STANDING = (*_IDENTITY, "attempt", "status", "error_code", "detected_at", "batch_id")


@dataclass(frozen=True)
class ErrorTable:
    """One of `dlq_errors` and `firehose_errors`; `content` names the column that a replay sends."""

    catalog: Catalog
    spec: TableSpec
    hop: Hop
    content: str
    sleep: Callable[[float], None] = time.sleep

    def append(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Append what the table does not have yet. Returns what this call appended: nothing of a rerun."""
        appended: list[Attempt] = []
        ordered = sorted(attempts, key=lambda each: each.identity.topic)
        for topic, group in groupby(ordered, key=lambda each: each.identity.topic):
            for run in chunks.by_count(list(group), _LOOK_UP):
                appended.extend(self._append(topic, run))
        return appended

    def standings(self, topic: str | None = None) -> list[Standing]:
        """The latest attempt of every record, of one topic or of all; none when nothing has ever failed."""
        latest: dict[str, dict[str, Any]] = {}
        if not self.catalog.table_exists(self.spec.identifier):
            return []
        which = ALWAYS_TRUE if topic is None else row_filters.of_topic(topic)
        scan = self._load().scan(which, selected_fields=_STANDING)
        for batch in scan.to_arrow_batch_reader():
            for row in batch.to_pylist():
                held = latest.get(row["record_id"])
                if held is None or held["attempt"] < row["attempt"]:
                    latest[row["record_id"]] = row
        return [_standing(self.hop, row) for row in latest.values()]

    def contents(self, standings: Sequence[Standing]) -> dict[str, str]:
        """What each record's newest row with a content holds, by record_id. At least one record is asked."""
        newest: dict[str, tuple[int, str]] = {}
        fields = ("record_id", "attempt", self.content)
        scan = self._load().scan(_about(standings), selected_fields=fields)
        for row in scan.to_arrow().to_pylist():
            held = newest.get(row["record_id"], (0, ""))
            if row[self.content] is not None and row["attempt"] > held[0]:
                newest[row["record_id"]] = (row["attempt"], row[self.content])
        return {record_id: content for record_id, (_, content) in newest.items()}

    def _append(self, topic: str, attempts: Sequence[Attempt]) -> list[Attempt]:
        for number in range(COMMIT_ATTEMPTS):
            table = self._load()
            fresh = numbered(attempts, self._known(table, attempts))
            if not fresh:
                return []
            try:
                table.append(self._rows(table, fresh))
            except CommitFailedException:
                self.sleep(random.uniform(0, min(2.0, 0.05 * 2 ** min(number, 6))))  # noqa: S311
                continue
            return [attempt for _, attempt in fresh]
        raise RetryableError(f"{self.spec.name} stayed contended", topic=topic, table=self.spec.identifier)

    def _load(self) -> Table:
        return self.catalog.load_table(self.spec.identifier)

    def _known(self, table: Table, attempts: Sequence[Attempt]) -> dict[str, dict[str, int]]:
        fields = ("record_id", "batch_id", "attempt")
        known: dict[str, dict[str, int]] = defaultdict(dict)
        for row in table.scan(_about(attempts), selected_fields=fields).to_arrow().to_pylist():
            known[row["record_id"]][row["batch_id"]] = row["attempt"]
        return known

    def _rows(self, table: Table, fresh: Sequence[tuple[int, Attempt]]) -> pa.Table:
        columns = {column.name for column in self.spec.columns}
        rows = [
            {
                "record_id": each.record_id,
                "topic_name": each.identity.topic,
                "message_id": each.identity.message_id,
                "publish_time": to_datetime(each.identity.publish_time),
                "attempt": number,
                "status": each.status,
                "error_code": each.error_code,
                "detail": each.detail,
                "batch_id": each.batch_id,
                "detected_at": to_datetime(each.detected_at),
                **each.content,
            }
            for number, each in fresh
        ]
        schema = pa.schema([field for field in table.schema().as_arrow() if field.name in columns])
        return pa.Table.from_pylist(rows, schema=schema)


def dlq_errors(catalog: Catalog) -> ErrorTable:
    """What ended in a dead-letter queue."""
    return ErrorTable(catalog, tables.DLQ_ERRORS, "dlq", "body")


def firehose_errors(catalog: Catalog) -> ErrorTable:
    """What Firehose could not deliver."""
    return ErrorTable(catalog, tables.FIREHOSE_ERRORS, "firehose", "record")


def _about(records: Sequence[Attempt] | Sequence[Standing]) -> BooleanExpression:
    """The rows of these records of one topic: their partitions by topic and days, then by record_id."""
    days = [to_datetime(each.identity.publish_time).date() for each in records]
    return row_filters.both(
        row_filters.of_topic(records[0].identity.topic),
        row_filters.published(min(days), max(days)),
        row_filters.among("record_id", (each.record_id for each in records)),
    )


def _standing(hop: Hop, row: dict[str, Any]) -> Standing:
    return Standing(
        Identity(row["topic_name"], row["message_id"], to_micros(row["publish_time"])),
        hop,
        row["attempt"],
        cast(Status, row["status"]),
        row["error_code"],
        to_micros(row["detected_at"]),
        row["batch_id"],
    )
