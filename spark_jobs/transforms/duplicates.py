"""First in, first out: which rows of a batch are redeliveries, found on identities alone.

Payloads are big and duplicates are few, so payloads never move: identities find the suspects, and only the
suspects' own rows are looked at. A row is named by its place (`_file`, `_pos`), which no two rows share.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.transforms.identity import IDENTITY

PLACE = ["_file", "_pos"]
BROADCAST_ROWS = 500_000


def suspects(identities: DataFrame, history: DataFrame, rows: int) -> DataFrame:
    """Identities that stand in the batch more than once, or in history already (`known`)."""
    counted = identities.groupBy(*IDENTITY).agg(F.count("*").alias("copies"))
    batch_keys = counted.select(*IDENTITY)
    if rows <= BROADCAST_ROWS:
        batch_keys = F.broadcast(batch_keys)
    known = history.select(*IDENTITY).join(batch_keys, on=IDENTITY, how="left_semi")
    repeated = counted.where(F.col("copies") > 1).select(*IDENTITY)
    return (
        known.withColumn("known", F.lit(1))
        .unionByName(repeated.withColumn("known", F.lit(0)))
        .groupBy(*IDENTITY)
        .agg(F.max("known").alias("known"))
    )


def redeliveries(batch: DataFrame, suspected: DataFrame) -> DataFrame:
    """The places of the rows to leave out: every row of a known identity, all but the first of a repeated one."""
    first_first = Window.partitionBy(*IDENTITY).orderBy("ingestion_ts", "json_payload", *PLACE)
    return (
        batch.select(*IDENTITY, "ingestion_ts", "json_payload", *PLACE)
        .join(F.broadcast(suspected), on=IDENTITY, how="inner")
        .withColumn("rank", F.row_number().over(first_first))
        .where((F.col("known") == 1) | (F.col("rank") > 1))
        .select(*IDENTITY, "json_payload", *PLACE)
    )


def without(batch: DataFrame, redelivered: DataFrame) -> DataFrame:
    """The batch without its redeliveries."""
    return batch.join(F.broadcast(redelivered.select(*PLACE)), on=PLACE, how="left_anti")


def conflicts(redelivered: DataFrame, source: DataFrame) -> DataFrame:
    """Redeliveries that say something else than the first arrival of their identity in the source."""
    first = F.min(F.struct("ingestion_ts", "json_payload"))["json_payload"].alias("first_payload")
    firsts = (
        source.join(F.broadcast(redelivered.select(*IDENTITY).distinct()), on=IDENTITY, how="left_semi")
        .groupBy(*IDENTITY)
        .agg(first)
    )
    return redelivered.join(firsts, on=IDENTITY, how="inner").where(
        F.col("json_payload") != F.col("first_payload")
    )
