"""The books of a batch, counted from tables: where did each identity of the source range end?"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops.batch.accounting import OUTCOMES
from spark_jobs.transforms.identity import IDENTITY, fingerprint, hashed

SIDES = ("source", *OUTCOMES)


def places(*, source: DataFrame, added: DataFrame, before: DataFrame, errors: DataFrame) -> DataFrame:
    """Every identity in every place where it stands.

    source  rows of the range that was read     added   rows the batch appended to its branch
    before  outcomes of earlier batches         errors  rows the batch appended to the error table
    """
    frames = zip(SIDES, (source, added, before, errors), strict=True)
    tagged = [frame.select(*IDENTITY, F.lit(side).alias("side")) for side, frame in frames]
    return reduce(DataFrame.unionByName, tagged)


def ledger(standing: DataFrame) -> DataFrame:
    """One row per identity with the number of times it stands in each place."""
    sides = (F.sum((F.col("side") == side).cast("int")).alias(side) for side in SIDES)
    return standing.groupBy(*IDENTITY).agg(*sides)


def totals(entries: DataFrame) -> DataFrame:
    """The books as one row: counts and fingerprints per outcome, and what does not add up."""
    in_source, added = F.col("source") > 0, F.col("added") > 0
    before, errors = F.col("before") > 0, F.col("errors") > 0
    outcomes = added.cast("int") + before.cast("int") + errors.cast("int")
    return hashed(entries).agg(
        _total(F.when(in_source, F.col("source"))).alias("source_rows"),
        _count(in_source).alias("source_messages"),
        fingerprint(in_source).alias("source_fingerprint"),
        _total(F.col("added")).alias("added_rows"),
        fingerprint(added).alias("added_fingerprint"),
        _count(in_source & before).alias("known_messages"),
        fingerprint(in_source & before).alias("known_fingerprint"),
        _count(in_source & errors).alias("error_messages"),
        fingerprint(in_source & errors).alias("error_fingerprint"),
        _count(in_source & (outcomes == 0)).alias("missing"),
        _count((in_source & (outcomes > 1)) | _twice()).alias("doubled"),
        _count(added & ~in_source).alias("foreign"),
    )


def offenders(entries: DataFrame, limit: int = 10) -> list[str]:
    """Some of the identities that do not add up, for the error message."""
    outcomes = sum(((F.col(side) > 0).cast("int") for side in OUTCOMES), F.lit(0))
    wrong = ((F.col("source") > 0) & (outcomes != 1)) | _twice()
    foreign = (F.col("source") == 0) & (F.col("added") > 0)
    return [
        row.message_id for row in entries.where(wrong | foreign).select("message_id").limit(limit).collect()
    ]


def _twice() -> Column:
    return (F.col("added") > 1) | (F.col("errors") > 1)


def _count(condition: Column) -> Column:
    return F.coalesce(F.sum(condition.cast("bigint")), F.lit(0))


def _total(value: Column) -> Column:
    return F.coalesce(F.sum(value), F.lit(0))


def tally(identities: DataFrame, name: str) -> dict[str, int]:
    """How many identities there are, and their fingerprint."""
    row = (
        hashed(identities)
        .agg(F.count("*").alias("messages"), fingerprint().alias("fingerprint"))
        .collect()[0]
    )
    return {f"{name}_messages": row.messages, f"{name}_fingerprint": int(row.fingerprint)}
