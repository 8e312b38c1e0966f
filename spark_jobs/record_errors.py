"""The attempts at the records of a batch in `errors`: a new one for what is invalid, an answer for what has healed.

A record is open while its latest attempt is. What a batch has to add is found out from the table itself, so that
running it again adds nothing, whatever became of its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pyiceberg.catalog import Catalog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lean_ops import tables
from lean_ops.aws import lake, row_filters
from lean_ops.batch.batch_plan import BATCH_ID, BatchPlan
from spark_jobs.iceberg import IcebergTable
from spark_jobs.transforms.days import published_on
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.validation import VIOLATIONS

_LATEST = (
    "attempt",
    "status",
    "error_code",
    "column_name",
    "rule",
    "contract_version",
    "batch_id",
    "detected_at",
)
_VIOLATION = "array<struct<code:string,column:string,rule:string>>"


@dataclass(frozen=True)
class ErrorLog:
    """The errors of a plan's topic on some publish days."""

    spark: SparkSession
    catalog: Catalog
    plan: BatchPlan
    days: Sequence[date]

    def latest(self, snapshot: int | None = None) -> DataFrame | None:
        """The latest attempt at every record, as of now or of a snapshot; None when there are no rows at all."""
        if not self.days or (snapshot is None and not self._any_rows()):
            return None
        table = IcebergTable(self.spark, tables.ERRORS.identifier)
        mine = (F.col("topic_name") == self.plan.topic) & published_on(self.days)
        newest = F.max_by(F.struct(*_LATEST), "attempt").alias("latest")
        rows = table.at(snapshot or table.head).where(mine)
        grouped = rows.groupBy("record_id", *IDENTITY, "period_reference").agg(newest)
        return grouped.select("record_id", *IDENTITY, "period_reference", "latest.*")

    def open_now(self) -> DataFrame | None:
        """The records whose error this batch leaves open."""
        latest = self.latest()
        return None if latest is None else latest.where(is_open() & self._settled())

    def append(self, invalid: DataFrame) -> None:
        """A new attempt at every invalid record, unless its latest one is this batch's own."""
        rows = self._attempts(invalid)
        latest = self.latest()
        if latest is not None:
            known = latest.select("record_id", F.col("attempt").alias("_last"), self._done().alias("_done"))
            rows = rows.join(known, on="record_id", how="left").where(~F.coalesce("_done", F.lit(False)))
            rows = rows.withColumn("attempt", F.coalesce(F.col("_last"), F.lit(0)) + 1)
        self._write(rows)

    def resolve(self, records: DataFrame) -> None:
        """Answer the open errors of these records that this batch did not leave open: they are valid now."""
        latest = self.latest()
        if latest is None:
            return
        open_before = latest.where(is_open() & ~self._settled())
        healed = open_before.join(records.select(*IDENTITY), on=IDENTITY, how="left_semi")
        self._write(
            healed.select(
                "record_id", *IDENTITY, "period_reference", "error_code", "column_name", "rule",
                (F.col("attempt") + 1).alias("attempt"),
                F.lit("resolved").alias("status"),
                F.lit(f"valid under contract {self.plan.contract_version}").alias("detail"),
                F.lit("[]").alias("violations"),
            )
        )  # fmt: skip

    def _settled(self) -> Column:
        """Attempts with which this batch agrees: a replay's own; otherwise those under the same contract."""
        if self.plan.hop == "replay":
            return F.col("batch_id") == self.plan.batch_id
        return F.col("contract_version") == self.plan.contract_version

    def _done(self) -> Column:
        return is_open() & self._settled()

    def _attempts(self, invalid: DataFrame) -> DataFrame:
        micros = F.unix_micros("publish_time").cast("string")
        first = F.from_json(VIOLATIONS, _VIOLATION)[0]
        return invalid.select(
            F.concat_ws("/", F.lit(f"{self.plan.topic}/curate"), micros, "message_id").alias("record_id"),
            *IDENTITY,
            "period_reference",
            F.lit(1).alias("attempt"),
            F.lit("open").alias("status"),
            first["code"].alias("error_code"),
            first["column"].alias("column_name"),
            first["rule"].alias("rule"),
            F.lit(None).cast("string").alias("detail"),
            F.col(VIOLATIONS).alias("violations"),
        )

    def _write(self, rows: DataFrame) -> None:
        """Append what there is; nothing is committed when there is nothing."""
        plan = self.plan
        stamped = rows.withColumns(
            {
                "topic_name": F.lit(plan.topic),
                "batch_id": F.lit(plan.batch_id),
                "detected_at": F.lit(plan.batch_time),
                "contract_version": F.lit(plan.contract_version),
            }
        ).select(*(column.name for column in tables.ERRORS.columns))
        # Once to the driver: the rows are few, and what is counted is what is written.
        pinned = self.spark.createDataFrame(stamped.toArrow())
        if not pinned.isEmpty():
            table = IcebergTable(self.spark, tables.ERRORS.identifier)
            table.append(pinned.coalesce(1), {BATCH_ID: plan.batch_id})

    def _any_rows(self) -> bool:
        where = row_filters.both(
            row_filters.of_topic(self.plan.topic), row_filters.published(min(self.days), max(self.days))
        )
        return lake.holds_rows(self.catalog.load_table(tables.ERRORS.identifier), where)


def is_open() -> Column:
    """Whether an attempt leaves its record open."""
    return F.col("status") == "open"
