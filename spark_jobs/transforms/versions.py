"""Versions of a key: which messages of a batch a later one with the same key supersedes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.transforms.identity import IDENTITY

VERSION = ["publish_time", "message_id"]


def superseded(rows: DataFrame) -> DataFrame:
    """Messages that are not the greatest version of their key among these rows; without a key none is."""
    latest_first = Window.partitionBy("idempotency_key").orderBy(*(F.desc(name) for name in VERSION))
    return (
        rows.where(F.col("idempotency_key").isNotNull())
        .select(*IDENTITY, "idempotency_key")
        .withColumn("rank", F.row_number().over(latest_first))
        .where(F.col("rank") > 1)
        .drop("rank")
    )


def confirmed(left_out: DataFrame, written: DataFrame) -> DataFrame:
    """Those of the messages left out for whose key a greater version was written."""
    version = F.struct(*VERSION)
    latest = written.groupBy("idempotency_key").agg(F.max(version).alias("latest"))
    return left_out.join(latest, on="idempotency_key", how="inner").where(version < F.col("latest"))
