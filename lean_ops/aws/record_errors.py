"""The attempts at the records of a batch in `errors`: a new one for what is invalid, an answer for what has healed.

A record is open while its latest attempt is. What a batch has to add is decided from the table as it is, and
committed only if it still is so; running a batch again therefore adds nothing, whatever became of its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lean_ops import tables
from lean_ops.aws import row_filters
from lean_ops.aws.append_missing import append_decided
from lean_ops.batch.batch_plan import BatchPlan
from lean_ops.identity import Identity, to_micros

IDENTITY = ("message_id", "publish_time")
# What `append` takes: an invalid record, and everything that is wrong with it.
INVALID = (*IDENTITY, "period_reference", "error_code", "column_name", "rule", "violations")
_KEPT = (*IDENTITY, "period_reference", "error_code", "column_name", "rule")
_LATEST = ("record_id", *_KEPT, "attempt", "status", "batch_id", "contract_version", "detected_at")


@dataclass(frozen=True)
class ErrorLog:
    """The errors of a plan's topic on some publish days. What a `lost` replay resolved is open again."""

    catalog: Catalog
    plan: BatchPlan
    days: Sequence[date]
    lost: frozenset[str] = frozenset()

    def latest(self, table: Table | None = None, snapshot: int | None = None) -> pa.Table:
        """The latest attempt at every record, as of now or of a snapshot."""
        table = table or self.catalog.load_table(tables.ERRORS.identifier)
        mine = row_filters.both(row_filters.of_topic(self.plan.topic), row_filters.published_on(self.days))
        found = table.scan(mine, selected_fields=_LATEST, snapshot_id=snapshot).to_arrow()
        # Whoever wrote the files: Spark's have short texts, ours have large ones, and a join takes one kind only.
        found = found.cast(table.schema().select(*_LATEST).as_arrow()).select(_LATEST)
        newest = found.group_by("record_id").aggregate([("attempt", "max")])
        # Whoever came late may have written the same attempt once more.
        rows = found.join(
            newest,
            keys=["record_id", "attempt"],
            right_keys=["record_id", "attempt_max"],
            join_type="inner",
        )
        first = rows.append_column("row", pa.array(range(len(rows)), pa.int64()))
        once = first.group_by("record_id").aggregate([("row", "min")])["row_min"]
        return rows.take(once).select(_LATEST)

    def left_open(self) -> pa.Table:
        """The records that this batch leaves open."""
        latest = self.latest()
        return latest.filter(self._done(latest)).select(IDENTITY)

    def append(self, invalid: pa.Table) -> None:
        """A new attempt at every invalid record, unless its latest one says the same already."""
        records = _named(self.plan, invalid.select(INVALID))

        def attempts(table: Table) -> pa.Table:
            latest = self.latest(table)
            known = pa.table(
                {"record_id": latest["record_id"], "last": latest["attempt"], "done": self._done(latest)}
            )
            joined = records.join(known, keys="record_id")
            fresh = joined.filter(pc.invert(pc.fill_null(joined["done"], False)))
            return self._rows(table, fresh, status="open", last=pc.fill_null(fresh["last"], 0))

        append_decided(self.catalog, tables.ERRORS.identifier, attempts)

    def resolve(self, records: Callable[[], pa.Table]) -> None:
        """Answer the open errors of these records that this batch did not leave open: they are valid now."""

        def answers(table: Table) -> pa.Table:
            latest = self.latest(table)
            before = latest.filter(pc.and_(self.is_open(latest), pc.invert(self._settled(latest))))
            if len(before):
                before = before.join(records().select(IDENTITY), keys=list(IDENTITY), join_type="left semi")
            detail = f"valid under contract {self.plan.contract_version}"
            return self._rows(table, before, status="resolved", last=before["attempt"], detail=detail)

        append_decided(self.catalog, tables.ERRORS.identifier, answers)

    def is_open(self, attempts: pa.Table) -> pa.ChunkedArray:
        """Which attempts leave their record open."""
        lost = pc.is_in(attempts["batch_id"], value_set=pa.array(self.lost, pa.large_string()))
        return pc.or_(pc.equal(attempts["status"], "open"), lost)

    def _settled(self, attempts: pa.Table) -> pa.ChunkedArray:
        """Attempts with which this batch agrees: a replay's own; otherwise those under the same contract."""
        if self.plan.hop == "replay":
            return pc.equal(attempts["batch_id"], self.plan.batch_id)
        return pc.equal(attempts["contract_version"], self.plan.contract_version)

    def _done(self, attempts: pa.Table) -> pa.ChunkedArray:
        return pc.and_(self.is_open(attempts), self._settled(attempts))

    def _rows(self, table: Table, records: pa.Table, *, last: Any, **values: str) -> pa.Table:
        """Rows of the table for these records."""
        plan = self.plan
        constant = values | {
            "topic_name": plan.topic,
            "batch_id": plan.batch_id,
            "detected_at": plan.batch_time,
            "contract_version": plan.contract_version,
        }
        schema, columns = table.schema().as_arrow(), []
        for field in schema:
            if field.name == "attempt":
                columns.append(pc.add(last, 1).cast(field.type))
            elif field.name in constant:
                columns.append(pa.array([constant[field.name]] * len(records), field.type))
            elif field.name in records.column_names:
                columns.append(records[field.name].cast(field.type))
            else:
                columns.append(pa.nulls(len(records), field.type))
        return pa.Table.from_arrays(columns, schema=schema)


def _named(plan: BatchPlan, records: pa.Table) -> pa.Table:
    """The records with their ids. A replay tries the records of the hop that failed them."""
    ids = [
        Identity(plan.topic, message_id, to_micros(moment)).record_id("curate")
        for message_id, moment in zip(*(records[name].to_pylist() for name in IDENTITY), strict=True)
    ]
    return records.append_column("record_id", pa.array(ids, pa.large_string()))
