"""Appends the faulty messages of a batch to parse_errors, each once whatever is run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lean_ops import tables
from lean_ops.aws.append_missing import append_missing
from lean_ops.batch.batch_plan import BATCH_ID, BatchPlan
from lean_ops.identity import Identity, to_micros
from spark_jobs.iceberg import IcebergTable

_PASSED = ("message_id", "publish_time", "detail", "ingestion_ts", "idempotency_key", "json_payload")


def append_few(
    catalog: Catalog, faults: Sequence[Mapping[str, Any]], plan: BatchPlan, mine: BooleanExpression
) -> None:
    """The same for faults that this process holds."""
    rows = [
        {
            "record_id": _identity(plan, fault).record_id("standardize"),
            "topic_name": plan.topic,
            "attempt": 1,
            "status": "open",
            "error_code": fault["code"],
            "batch_id": plan.batch_id,
            "detected_at": plan.batch_time,
            "contract_version": plan.contract_version,
            **{name: fault[name] for name in _PASSED},
        }
        for fault in faults
    ]
    append_missing(catalog, tables.PARSE_ERRORS.identifier, rows, key="record_id", where=mine)


def _identity(plan: BatchPlan, fault: Mapping[str, Any]) -> Identity:
    return Identity(plan.topic, fault["message_id"], to_micros(fault["publish_time"]))


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
