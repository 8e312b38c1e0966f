"""First in, first out: which rows of a batch are redeliveries, found on identities alone.

Payloads are big and duplicates are few, so payloads never move: hashes of identities find the suspects, and only
the suspects' own rows are compared, by what they are. A row is named by its place (`_file`, `_pos`), which no two
rows share.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.transforms.identity import IDENTITY

PLACE = ["_file", "_pos"]
_HASH = "_suspect"


def suspects(spark: SparkSession, batch: DataFrame, history: DataFrame) -> DataFrame | None:
    """Hashes of identities that stand in the batch more than once, or in history already; None without any.

    Eight bytes a message come to the driver: counting them there costs less than moving them between tasks.
    """
    counted = pc.value_counts(_hashes(batch))
    distinct, copies = counted.field("values"), counted.field("counts")
    known = _hashes(_suspicious(history, _frame(spark, distinct)))
    found = pa.concat_arrays([distinct.filter(pc.greater(copies, 1)), known])
    return _frame(spark, pc.unique(found)) if len(found) else None


def redeliveries(batch: DataFrame, history: DataFrame, suspected: DataFrame) -> DataFrame:
    """The rows to leave out: every row of a known identity, all but the first of a repeated one."""
    known = _suspicious(history, suspected).select(*IDENTITY).distinct().withColumn("known", F.lit(True))
    first_first = Window.partitionBy(*IDENTITY).orderBy("ingestion_ts", "json_payload", *PLACE)
    return (
        _suspicious(batch.select(*IDENTITY, "ingestion_ts", "json_payload", *PLACE), suspected)
        .join(known, on=IDENTITY, how="left")
        .withColumn("known", F.coalesce("known", F.lit(False)))
        .withColumn("rank", F.row_number().over(first_first))
        .withColumn("first_payload", F.first("json_payload").over(first_first))
        .where(F.col("known") | (F.col("rank") > 1))
        .select(*IDENTITY, "json_payload", "first_payload", "known", *PLACE)
    )


def without(batch: DataFrame, redelivered: DataFrame) -> DataFrame:
    """The batch without its redeliveries."""
    return batch.join(F.broadcast(redelivered.select(*PLACE)), on=PLACE, how="left_anti")


def conflicts(redelivered: DataFrame, source: DataFrame) -> int:
    """How many redeliveries say something else than the first arrival of their identity in the source.

    Of identities that are new with this batch the first arrival is in the batch itself.
    """
    differ = F.col("json_payload") != F.col("first_payload")
    counted = redelivered.agg(
        F.count_if(~F.col("known") & differ).alias("new"), F.count_if("known").alias("known")
    )
    here = counted.collect()[0]
    return int(here.new) + (_conflicts_with_history(redelivered.where("known"), source) if here.known else 0)


def _conflicts_with_history(redelivered: DataFrame, source: DataFrame) -> int:
    first = F.min(F.struct("ingestion_ts", "json_payload"))["json_payload"].alias("first")
    firsts = (
        source.join(F.broadcast(redelivered.select(*IDENTITY).distinct()), on=IDENTITY, how="left_semi")
        .groupBy(*IDENTITY)
        .agg(first)
    )
    compared = redelivered.join(firsts, on=IDENTITY, how="inner")
    return compared.where(F.col("json_payload") != F.col("first")).count()


def _hashed(frame: DataFrame) -> DataFrame:
    return frame.withColumn(_HASH, F.xxhash64(*IDENTITY))


def _hashes(frame: DataFrame) -> pa.Array:
    return _hashed(frame).select(_HASH).toArrow()[_HASH].combine_chunks()


def _suspicious(frame: DataFrame, suspected: DataFrame) -> DataFrame:
    return _hashed(frame).join(F.broadcast(suspected), on=_HASH, how="left_semi").drop(_HASH)


def _frame(spark: SparkSession, hashes: pa.Array) -> DataFrame:
    return spark.createDataFrame(pa.table({_HASH: hashes}))
