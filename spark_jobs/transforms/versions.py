"""Versions of a key: which messages of a batch a later one with the same key supersedes."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.transforms.identity import IDENTITY


def superseded(rows: DataFrame) -> DataFrame:
    """Identities that are not the greatest version of their key among these rows; without a key none is."""
    latest_first = Window.partitionBy("idempotency_key").orderBy(F.desc("publish_time"), F.desc("message_id"))
    return (
        rows.where(F.col("idempotency_key").isNotNull())
        .select(*IDENTITY, "idempotency_key")
        .withColumn("rank", F.row_number().over(latest_first))
        .where(F.col("rank") > 1)
        .select(*IDENTITY)
    )
