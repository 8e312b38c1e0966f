"""RAW → Standardized: each message once, its payload flattened to text columns, nothing lost and nothing guessed.

Invariant: every distinct message of the range ends in Standardized or in parse_errors, and in one of them only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops import naming, tables
from lean_ops.accounting import Books
from lean_ops.aws.schema_store import StoredContract
from lean_ops.batch_plan import Hop
from lean_ops.tables import TableSpec
from lean_ops.topics import TopicSpec
from spark_jobs import parse_errors
from spark_jobs.entry import main
from spark_jobs.evolution import Evolution
from spark_jobs.iceberg import IcebergTable
from spark_jobs.protocol import OpenBatch, Ports, Staged
from spark_jobs.transforms import books, duplicates, payloads, versions
from spark_jobs.transforms.days import published_on, slice_of
from spark_jobs.transforms.discovery import Discovered, discover, summary
from spark_jobs.transforms.identity import IDENTITY

# From this many rows per publish day on, a file per task and day is big enough: no shuffle to gather them.
_ROWS_WORTH_A_FILE = 50_000


@dataclass(frozen=True)
class Standardize:
    """The first hop of a topic."""

    topic: TopicSpec
    contract_version: str
    contract_sha256: str
    pii_key_id: str | None = None
    hop: Hop = "standardize"

    @property
    def source(self) -> tuple[str, str]:
        return naming.raw_table(self.topic.topic)

    @property
    def target(self) -> tuple[str, str]:
        return naming.standardized_table(self.topic.topic)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return tables.standardized(self.topic.topic), tables.PARSE_ERRORS

    def stage(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Staged:
        """Faulty messages to parse_errors, the others to the branch; then both are counted back."""
        steps, view = ports.steps, _View(batch, IcebergTable(spark, tables.PARSE_ERRORS.identifier))
        with steps("find_duplicates"):
            redelivered = view.redelivered()
        fresh = view.rows if redelivered is None else duplicates.without(view.rows, redelivered)
        evolution = Evolution.of(ports.catalog, batch.plan, batch.columns)
        discovery = discover(fresh, evolution.known).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with steps("discover"):
                found = summary(discovery)
            with steps("evolve"):
                evolution = evolution.evolved(ports.catalog, found)
                batch.target.refresh()
            with steps("write_errors"):
                if found.faults:
                    faults = discovery.where("code is not null")
                    parse_errors.append(view.errors, faults, view.known_errors(), batch.plan)
        finally:
            discovery.unpersist()
        shape = evolution.shape(found)
        flat = fresh.mapInArrow(partial(payloads.flatten, shape=shape), from_arrow_schema(shape.schema))
        superseded = None
        if batch.plan.settings.standardized_lifo == "batch":
            with steps("find_superseded"):
                superseded = versions.superseded(flat).localCheckpoint()
                flat = flat.join(F.broadcast(superseded), on=IDENTITY, how="left_anti")
        with steps("write_rows"):
            batch.target.append(flat, batch.plan.token.summary(), branch=batch.branch, **_layout(batch))
        with steps("audit"):
            snapshot = batch.target.branch_head(batch.branch)
            entries = view.ledger(snapshot)
            counted = _books(entries, superseded)
            conflicting = view.conflicts(redelivered) if redelivered is not None else 0
        remembered, events = evolution.observed(found)
        return Staged(
            books=counted,
            offenders=partial(books.offenders, entries),
            snapshot=snapshot,
            counts=_counts(counted, conflicting, found),
            drift=events,
            warnings=_warnings(conflicting, found),
            columns=remembered,
        )


@dataclass(frozen=True)
class _View:
    """The tables as the batch sees them: every read pinned to a snapshot."""

    batch: OpenBatch
    errors: IcebergTable

    @cached_property
    def rows(self) -> DataFrame:
        """The rows of the plan's range, each with its place."""
        plan, source = self.batch.plan, self.batch.source
        if plan.start_snapshot is None:
            frame = source.at(plan.end_snapshot)
        else:
            frame = source.between(plan.start_snapshot, plan.end_snapshot)
        names = (column.name for column in tables.RAW_COLUMNS)
        return slice_of(frame, plan).select(*names, *duplicates.PLACE)

    def before(self) -> DataFrame:
        """What the target held already on the batch's publish days."""
        return self.batch.target.at(self.batch.head).where(published_on(self.batch.days)).select(*IDENTITY)

    def known_errors(self) -> DataFrame:
        """The topic's parse errors of the batch's publish days, as of now."""
        mine = F.col("topic_name") == self.batch.plan.topic
        return self.errors.at(self.errors.head).where(mine & published_on(self.batch.days))

    def redelivered(self) -> DataFrame | None:
        """The rows to leave out, or None when there are none, as nearly always."""
        history = self.before().unionByName(self.known_errors().select(*IDENTITY))
        suspected = duplicates.suspects(
            self.rows.select(*IDENTITY), history, self.batch.rows
        ).localCheckpoint()
        if suspected.isEmpty():
            return None
        return duplicates.redeliveries(self.rows, suspected).localCheckpoint()

    def conflicts(self, redelivered: DataFrame) -> int:
        """How many redeliveries say something else than the first arrival."""
        arrived = self.batch.source.at(self.batch.plan.end_snapshot).where(published_on(self.batch.days))
        return duplicates.conflicts(redelivered, arrived).count()

    def ledger(self, snapshot: int) -> DataFrame:
        """Where each identity of the range is now."""
        self.errors.refresh()
        return books.ledger(
            source=self.rows,
            added=self.batch.target.between(self.batch.head, snapshot),
            before=self.before(),
            errors=self.known_errors(),
        )


def _layout(batch: OpenBatch) -> dict[str, str]:
    if batch.rows < _ROWS_WORTH_A_FILE * max(1, len(batch.days)):
        return {"distribution-mode": "hash"}
    return {"distribution-mode": "none", "fanout-enabled": "true"}


def _books(entries: DataFrame, superseded: DataFrame | None) -> Books:
    row = books.totals(entries).collect()[0].asDict()
    left_out = {} if superseded is None else books.tally(superseded, "superseded")
    return Books(**{name: int(value) for name, value in (row | left_out).items()})


def _counts(counted: Books, conflicting: int, found: Discovered) -> dict[str, int]:
    return {
        "redelivered_rows": counted.redelivered_rows,
        "conflicting_rows": conflicting,
        "nonsense_periods": found.nonsense_periods,
        **{f"fault_{code.lower()}": count for code, count in sorted(found.faults.items())},
    }


def _warnings(conflicting: int, found: Discovered) -> tuple[str, ...]:
    notes = (
        (conflicting, f"{conflicting} redeliveries differ from the first arrival of their message"),
        (found.nonsense_periods, f"{found.nonsense_periods} records name a period that is no month"),
        (found.overflow, "some leaves have no column and are kept in _overflow"),
    )
    return tuple(text for true, text in notes if true)


def standardize(topic: TopicSpec, contract: StoredContract) -> Standardize:
    """The hop of a topic under its active contract."""
    return Standardize(topic, contract.contract.version, contract.sha256)


if __name__ == "__main__":
    sys.exit(main("standardize", standardize, sys.argv[1:]))
