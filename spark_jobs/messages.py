"""The messages of a batch on their way into Standardized: on the executors, or on the driver when they are few.

Starting tasks costs more than a few thousand messages do, and most batches of most topics are small. Both ways
apply the same functions to the same Arrow batches; which one is taken changes nothing but the time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops.batch.accounting import Books, Identity, offenders
from lean_ops.identity import to_micros
from lean_ops.payload.survey import KnownShape
from spark_jobs.raw_range import RawRange
from spark_jobs.transforms import books, duplicates, payloads
from spark_jobs.transforms.discovery import Discovered, summarize
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.payloads import TableShape

DRIVER_ROWS = 20_000
DRIVER_BYTES = 32 * 1024 * 1024


class Messages(Protocol):
    """The fresh messages of a range, redeliveries left out."""

    def conflicting(self) -> int:
        """How many redeliveries say something else than the first arrival of their message."""

    def discover(self, known: KnownShape) -> Discovered:
        """What is broken and what is new, in one pass."""

    def faults(self) -> DataFrame:
        """The broken messages that `discover` found."""

    def flatten(self, shape: TableShape) -> DataFrame:
        """The rows of the Standardized table."""

    def audit(self, snapshot: int) -> Audit:
        """Count from the tables where each message of the range is now."""

    def release(self) -> None:
        """Forget what was kept between the passes."""


@dataclass(frozen=True)
class Audit:
    """The books of a batch, and how to name some messages that do not add up."""

    books: Books
    offenders: Callable[[], list[str]]


def messages_of(spark: SparkSession, raw: RawRange, driver_rows: int) -> Messages:
    """The messages of a range, where they are cheapest to handle."""
    few = raw.batch.rows <= driver_rows and raw.batch.bytes <= DRIVER_BYTES
    return DriverMessages.of(spark, raw) if few else ExecutorMessages.of(raw)


@dataclass(frozen=True)
class ExecutorMessages:
    """Many messages: payloads never move, only identities do."""

    raw: RawRange
    redelivered: DataFrame | None
    kept: list[DataFrame]

    @classmethod
    def of(cls, raw: RawRange) -> ExecutorMessages:
        suspected = duplicates.suspects(
            raw.rows.select(*IDENTITY), raw.history(), raw.batch.rows
        ).localCheckpoint()
        if suspected.isEmpty():
            return cls(raw, None, [])
        return cls(raw, duplicates.redeliveries(raw.rows, suspected).localCheckpoint(), [])

    @cached_property
    def fresh(self) -> DataFrame:
        return (
            self.raw.rows if self.redelivered is None else duplicates.without(self.raw.rows, self.redelivered)
        )

    def conflicting(self) -> int:
        return (
            0
            if self.redelivered is None
            else duplicates.conflicts(self.redelivered, self.raw.arrivals()).count()
        )

    def discover(self, known: KnownShape) -> Discovered:
        schema = from_arrow_schema(payloads.DISCOVERY)
        discovery = self.fresh.mapInArrow(partial(payloads.discover, known=known), schema)
        self.kept.append(discovery.persist(StorageLevel.MEMORY_AND_DISK))
        grouped = discovery.groupBy("code", "path", "kind", "overflow").agg(
            F.count("*").alias("rows"), F.sum("nonsense_periods").alias("nonsense")
        )
        return summarize(row.asDict() for row in grouped.collect())

    def faults(self) -> DataFrame:
        return self.kept[-1].where("code is not null")

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


@dataclass(frozen=True)
class DriverMessages:
    """Few messages: read once, handled here, handed back to Spark as rows."""

    spark: SparkSession
    raw: RawRange
    identities: DataFrame
    fresh: pa.Table
    redelivered: pa.Table
    conflicting_repeats: int
    kept: list[pa.Table]

    @classmethod
    def of(cls, spark: SparkSession, raw: RawRange) -> DriverMessages:
        arrived = raw.rows.drop(*duplicates.PLACE).toArrow()
        identities = spark.createDataFrame(arrived.select(IDENTITY))
        known = _known(raw, identities)
        keys = list(zip(*(arrived[name].to_pylist() for name in IDENTITY), strict=True))
        # Bytes, because nobody promised that a payload is UTF-8; they also sort as Spark sorts text.
        order = list(
            zip(
                arrived["ingestion_ts"].to_pylist(),
                arrived["json_payload"].cast(pa.large_binary()).to_pylist(),
                strict=True,
            )
        )
        first: dict[tuple[object, object], int] = {}
        repeated, redelivered = 0, []
        for index in sorted(range(len(keys)), key=order.__getitem__):
            if keys[index] in known:
                redelivered.append(index)
            elif first.setdefault(keys[index], index) != index:
                repeated += order[index][1] != order[first[keys[index]]][1]
        fresh = arrived.take(pa.array(sorted(first.values()), pa.int64()))
        return cls(
            spark, raw, identities, fresh, arrived.take(pa.array(redelivered, pa.int64())), repeated, []
        )

    def conflicting(self) -> int:
        if not len(self.redelivered):
            return self.conflicting_repeats
        frame = self.spark.createDataFrame(self.redelivered.select([*IDENTITY, "json_payload"]))
        return self.conflicting_repeats + duplicates.conflicts(frame, self.raw.arrivals()).count()

    def discover(self, known: KnownShape) -> Discovered:
        found = pa.Table.from_batches(payloads.discover(self._batches(), known), schema=payloads.DISCOVERY)
        self.kept.append(found)
        rows = found.select(["code", "path", "kind", "overflow", "nonsense_periods"]).rename_columns(
            ["code", "path", "kind", "overflow", "nonsense"]
        )
        return summarize({**row, "rows": 1} for row in rows.to_pylist())

    def faults(self) -> DataFrame:
        found = self.kept[-1]
        return self.spark.createDataFrame(found.filter(found["code"].is_valid()))

    def flatten(self, shape: TableShape) -> DataFrame:
        rows = pa.Table.from_batches(payloads.flatten(self._batches(), shape), schema=shape.schema)
        return self.spark.createDataFrame(rows).coalesce(1)

    def audit(self, snapshot: int) -> Audit:
        ledger: dict[Identity, Counter[str]] = defaultdict(Counter)
        for row in self.raw.outcomes(snapshot, among=self.identities).toArrow().to_pylist():
            ledger[row["message_id"], to_micros(row["publish_time"])][row["side"]] += 1
        return Audit(Books.of(ledger), partial(offenders, ledger))

    def release(self) -> None:
        self.kept.clear()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.fresh.to_batches())


def _known(raw: RawRange, identities: DataFrame) -> set[tuple[object, object]]:
    """The identities among these that have an outcome already."""
    found = raw.history().join(F.broadcast(identities), on=IDENTITY, how="left_semi").toArrow().to_pylist()
    return {(row["message_id"], row["publish_time"]) for row in found}
