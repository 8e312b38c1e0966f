"""Appends the faulty messages of a batch to parse_errors, each once whatever is run again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lean_ops import tables
from lean_ops.batch.batch_plan import BATCH_ID, BatchPlan
from spark_jobs.iceberg import IcebergTable


def append(table: IcebergTable, faults: DataFrame, known: DataFrame, plan: BatchPlan) -> None:
    """Append the faults whose record is not there yet; nothing is committed when all are."""
    rows = _rows(faults, plan)
    fresh = rows.join(known.select("record_id"), on="record_id", how="left_anti")
    if not fresh.isEmpty():
        table.append(
            fresh.select(*(column.name for column in tables.PARSE_ERRORS.columns)), {BATCH_ID: plan.batch_id}
        )


def _rows(faults: DataFrame, plan: BatchPlan) -> DataFrame:
    micros = F.unix_micros("publish_time").cast("string")
    return faults.select(
        F.concat_ws("/", F.lit(f"{plan.topic}/{plan.hop}"), micros, "message_id").alias("record_id"),
        F.lit(plan.topic).alias("topic_name"),
        "message_id",
        "publish_time",
        F.lit(1).alias("attempt"),
        F.lit("open").alias("status"),
        F.col("code").alias("error_code"),
        "detail",
        F.lit(plan.batch_id).alias("batch_id"),
        F.lit(plan.batch_time).alias("detected_at"),
        "ingestion_ts",
        "idempotency_key",
        "json_payload",
        F.lit(plan.contract_version).alias("contract_version"),
    )
