"""The messages of a batch on their way into Standardized: on the executors, or on the driver when they are few.

Starting tasks costs more than a few thousand messages do, and most batches of most topics are small. Both ways
apply the same functions to the same Arrow batches; which one is taken changes nothing but the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

from pyiceberg.catalog import Catalog
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops import tables
from lean_ops.batch.accounting import Audit, Books
from lean_ops.payload.survey import KnownShape
from spark_jobs import parse_errors
from spark_jobs.driver_messages import DriverMessages
from spark_jobs.iceberg import IcebergTable
from spark_jobs.raw_range import RawRange
from spark_jobs.transforms import books, duplicates, payloads
from spark_jobs.transforms.discovery import Discovered, summarize
from spark_jobs.transforms.payloads import TableShape
from spark_jobs.work import OpenBatch

DRIVER_ROWS = 20_000
DRIVER_BYTES = 32 * 1024 * 1024


class Messages(Protocol):
    """The fresh messages of a range, redeliveries left out."""

    def conflicting(self) -> int:
        """How many redeliveries say something else than the first arrival of their message."""

    def discover(self, known: KnownShape) -> Discovered:
        """What is broken and what is new, in one pass."""

    def write_faults(self) -> None:
        """Append the broken messages that `discover` found to parse_errors, each once whatever is run again."""

    def flatten(self, shape: TableShape) -> DataFrame:
        """The rows of the Standardized table."""

    def audit(self, snapshot: int) -> Audit:
        """Count from the tables where each message of the range is now."""

    def release(self) -> None:
        """Forget what was kept between the passes."""


def messages_of(spark: SparkSession, catalog: Catalog, batch: OpenBatch, driver_rows: int) -> Messages:
    """The messages of a range, where they are cheapest to handle."""
    if batch.rows <= driver_rows and batch.bytes <= DRIVER_BYTES:
        return DriverMessages.of(spark, catalog, batch)
    errors = IcebergTable(spark, tables.PARSE_ERRORS.identifier)
    return ExecutorMessages.of(spark, RawRange(batch, errors))


@dataclass(frozen=True)
class ExecutorMessages:
    """Many messages: payloads never move, only identities do."""

    raw: RawRange
    redelivered: DataFrame | None
    kept: list[DataFrame]

    @classmethod
    def of(cls, spark: SparkSession, raw: RawRange) -> ExecutorMessages:
        history = raw.history()
        suspected = duplicates.suspects(spark, raw.rows, history)
        if suspected is None:
            return cls(raw, None, [])
        return cls(raw, duplicates.redeliveries(raw.rows, history, suspected).localCheckpoint(), [])

    @cached_property
    def fresh(self) -> DataFrame:
        return (
            self.raw.rows if self.redelivered is None else duplicates.without(self.raw.rows, self.redelivered)
        )

    def conflicting(self) -> int:
        return 0 if self.redelivered is None else duplicates.conflicts(self.redelivered, self.raw.arrivals())

    def discover(self, known: KnownShape) -> Discovered:
        schema = from_arrow_schema(payloads.DISCOVERY)
        discovery = self.fresh.mapInArrow(partial(payloads.discover, known=known), schema)
        self.kept.append(discovery.persist(StorageLevel.MEMORY_AND_DISK))
        grouped = discovery.groupBy("code", "path", "kind", "overflow").agg(
            F.count("*").alias("rows"), F.sum("nonsense_periods").alias("nonsense")
        )
        return summarize(row.asDict() for row in grouped.collect())

    def write_faults(self) -> None:
        faults = self.kept[-1].where("code is not null")
        parse_errors.append(self.raw.errors, faults, self.raw.known_errors(), self.raw.batch.plan)

    def flatten(self, shape: TableShape) -> DataFrame:
        return self.fresh.mapInArrow(partial(payloads.flatten, shape=shape), from_arrow_schema(shape.schema))

    def audit(self, snapshot: int) -> Audit:
        entries = books.ledger(self.raw.outcomes(snapshot))
        row = books.totals(entries).collect()[0].asDict()
        counted = Books(**{name: int(value) for name, value in row.items()})
        return Audit(counted, partial(books.offenders, entries))

    def release(self) -> None:
        for frame in self.kept:
            frame.unpersist()
