"""Few messages: read once, handled here, handed to Spark as rows to append.

Whatever they need to know of the tables is read in this process too, from pinned snapshots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lean_ops import naming, tables
from lean_ops.aws import row_filters, rows
from lean_ops.batch.accounting import Audit, Books, Identity, offenders
from lean_ops.identity import to_micros
from lean_ops.payload.survey import KnownShape
from spark_jobs import parse_errors
from spark_jobs.transforms import payloads
from spark_jobs.transforms.discovery import Discovered, summarize
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.payloads import TableShape
from spark_jobs.work import OpenBatch

_RAW = [column.name for column in tables.RAW_COLUMNS]
_MESSAGE = (*IDENTITY, "ingestion_ts", "json_payload")


@dataclass(frozen=True)
class DriverTables:
    """The tables of a batch as it may see them."""

    catalog: Catalog
    batch: OpenBatch

    @cached_property
    def raw(self) -> Table:
        return self.catalog.load_table(naming.raw_table(self.batch.plan.topic))

    @property
    def days(self) -> BooleanExpression:
        return row_filters.published_on(self.batch.days)

    @property
    def mine(self) -> BooleanExpression:
        """The topic's rows of these days, in a table that all topics share."""
        return row_filters.both(row_filters.of_topic(self.batch.plan.topic), self.days)

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        """The rows of the plan's range."""
        plan = self.batch.plan
        return rows.appended(self.raw, plan.start_snapshot, plan.end_snapshot, columns, self.days)

    def before(self, among: pa.Table) -> pa.Table:
        """Which of the messages the target held already."""
        target = self.catalog.load_table(naming.standardized_table(self.batch.plan.topic))
        return _those(rows.standing(target, self.batch.head, IDENTITY, self.days), among)

    def added(self, snapshot: int) -> pa.Table:
        """What the batch appended to its branch."""
        target = self.catalog.load_table(naming.standardized_table(self.batch.plan.topic))
        return rows.appended(target, self.batch.head, snapshot, IDENTITY)

    def errors(self, among: pa.Table) -> pa.Table:
        """Which of the messages are parse errors, as of now, and of which batch."""
        table = self.catalog.load_table(tables.PARSE_ERRORS.identifier)
        return _those(table.scan(self.mine, selected_fields=(*IDENTITY, "batch_id")).to_arrow(), among)

    def first_payloads(self, among: pa.Table) -> dict[Any, bytes]:
        """What each of these messages said when it first arrived. Payloads are read of their own files only."""
        first: dict[Any, tuple[int, bytes]] = {}
        for task in self.raw.scan(self.days, snapshot_id=self.batch.plan.end_snapshot).plan_files():
            if len(_those(rows.of_file(self.raw, task, IDENTITY), among)):
                found = _those(rows.of_file(self.raw, task, _MESSAGE), among)
                for key, order in zip(_keys(found), _order(found), strict=True):
                    first[key] = min(order, first.get(key, order))
        return {key: payload for key, (_, payload) in first.items()}


@dataclass(frozen=True)
class DriverMessages:
    """The messages of a batch that is small enough for one process."""

    spark: SparkSession
    tables: DriverTables
    fresh: pa.Table
    redelivered: pa.Table
    conflicting_repeats: int
    kept: list[pa.Table]

    @classmethod
    def of(cls, spark: SparkSession, catalog: Catalog, batch: OpenBatch) -> DriverMessages:
        seen = DriverTables(catalog, batch)
        arrived = seen.arrived(_RAW)
        known, keys, order = _known(seen, arrived), _keys(arrived), _order(arrived)
        first: dict[Any, int] = {}
        repeated, redelivered = 0, []
        for index in sorted(range(len(keys)), key=order.__getitem__):
            if keys[index] in known:
                redelivered.append(index)
            elif first.setdefault(keys[index], index) != index:
                repeated += order[index][1] != order[first[keys[index]]][1]
        fresh = arrived.take(pa.array(sorted(first.values()), pa.int64()))
        return cls(spark, seen, fresh, arrived.take(pa.array(redelivered, pa.int64())), repeated, [])

    def conflicting(self) -> int:
        if not len(self.redelivered):
            return self.conflicting_repeats
        first = self.tables.first_payloads(self.redelivered)
        differing = (
            first[key] != payload
            for key, (_, payload) in zip(_keys(self.redelivered), _order(self.redelivered), strict=True)
        )
        return self.conflicting_repeats + sum(differing)

    def discover(self, known: KnownShape) -> Discovered:
        found = pa.Table.from_batches(payloads.discover(self._batches(), known), schema=payloads.DISCOVERY)
        self.kept.append(found)
        summary = found.select(["code", "path", "kind", "overflow", "nonsense_periods"]).rename_columns(
            ["code", "path", "kind", "overflow", "nonsense"]
        )
        return summarize({**row, "rows": 1} for row in summary.to_pylist())

    def write_faults(self) -> None:
        plan, found = self.tables.batch.plan, self.kept[-1]
        faults = found.filter(found["code"].is_valid()).to_pylist()
        parse_errors.append_few(self.tables.catalog, faults, plan, self.tables.mine)

    def flatten(self, shape: TableShape) -> DataFrame:
        flat = pa.Table.from_batches(payloads.flatten(self._batches(), shape), schema=shape.schema)
        return self.spark.createDataFrame(flat).coalesce(1)

    def audit(self, snapshot: int) -> Audit:
        """Everything is read anew: what was kept from before could repeat a mistake instead of finding it."""
        source = self.tables.arrived(IDENTITY)
        errors = self.tables.errors(source)
        own = pc.equal(errors["batch_id"], self.tables.batch.plan.batch_id)
        ledger: dict[Identity, Counter[str]] = defaultdict(Counter)
        for side, places in (
            ("source", source),
            ("added", self.tables.added(snapshot)),
            ("before", self.tables.before(source)),
            ("errors", errors.filter(own)),
            ("before", errors.filter(pc.invert(own))),
        ):
            for message_id, moment in _keys(places):
                ledger[message_id, to_micros(moment)][side] += 1
        return Audit(Books.of(ledger), partial(offenders, ledger))

    def release(self) -> None:
        self.kept.clear()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.fresh.to_batches())


def _known(seen: DriverTables, arrived: pa.Table) -> set[Any]:
    """The messages among these that have an outcome already."""
    return {*_keys(seen.before(arrived)), *_keys(seen.errors(arrived))}


def _those(found: pa.Table, among: pa.Table) -> pa.Table:
    """The rows whose message is one of these."""
    if not len(found) or not len(among):
        return found.slice(0, 0)
    likely = found.filter(pc.is_in(found["message_id"], value_set=among["message_id"].combine_chunks()))
    wanted = set(_keys(among))
    return likely.filter(pa.array([key in wanted for key in _keys(likely)], pa.bool_()))


def _keys(messages: pa.Table) -> list[Any]:
    return list(zip(*(messages[name].to_pylist() for name in IDENTITY), strict=True))


def _order(messages: pa.Table) -> list[tuple[int, bytes]]:
    """What is first among the deliveries of a message. Payloads as bytes: nobody promised that they are UTF-8."""
    texts = messages["json_payload"].cast(pa.large_binary()).to_pylist()
    return list(zip(messages["ingestion_ts"].to_pylist(), texts, strict=True))
