"""One row per key: payload of the greatest valid version, first_* of the least.

Rows never move to find that out: what a key's versions are is decided on keys and versions alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops.tables import KEY_HASH
from spark_jobs.transforms.identity import IDENTITY

KEY = [KEY_HASH, "idempotency_key"]
FIRST = ["first_seen_ts", "first_message_id", "first_period_reference"]
NEWER, EARLIER = "_newer", "_earlier"


def keyed(rows: DataFrame) -> DataFrame:
    """The rows with 64 bits of their key's hash, by which history is searched; the key itself confirms."""
    return rows.withColumn(KEY_HASH, F.xxhash64("idempotency_key"))


def version() -> Column:
    """What orders the versions of a key."""
    return F.struct("publish_time", "message_id")


def contenders(valid: DataFrame) -> DataFrame:
    """Per key of the batch: its greatest version, its least one, and how many there are."""
    first = F.struct(
        F.col("publish_time").alias(FIRST[0]),
        F.col("message_id").alias(FIRST[1]),
        F.col("period_reference").alias(FIRST[2]),
    )
    return valid.groupBy(*KEY).agg(
        F.max(version()).alias("greatest"), F.min(first).alias("least"), F.count("*").alias("versions")
    )


def winners(valid: DataFrame, found: DataFrame) -> DataFrame:
    """One row per key: its greatest version, with the first_* of its least. Most keys have one version only."""
    several = found.where("versions > 1").select(*KEY, "greatest", "least")
    # A key with one version has no partner here, and is its own first.
    joined = valid.join(several, on=KEY, how="left").where(
        F.col("greatest").isNull() | (version() == F.col("greatest"))
    )
    own = ("publish_time", "message_id", "period_reference")
    firsts = {
        name: F.coalesce(F.col("least")[name], F.col(mine)) for name, mine in zip(FIRST, own, strict=True)
    }
    return joined.withColumns(firsts).drop("greatest", "least")


def known(history: DataFrame, found: DataFrame) -> DataFrame:
    """The keys of the batch that have a row already: where it is, and whether the batch moves it."""
    rows = history.select(*KEY, *IDENTITY, "period_reference", *FIRST)
    current, first = version(), F.struct(*FIRST[:2])
    least = F.struct(F.col("least")[FIRST[0]].alias(FIRST[0]), F.col("least")[FIRST[1]].alias(FIRST[1]))
    return rows.join(found, on=KEY, how="inner").select(
        *KEY,
        F.col("period_reference").alias("_period"),
        F.struct(*FIRST).alias("_first"),
        (F.col("greatest") > current).alias(NEWER),
        (least < first).alias(EARLIER),
    )


def updates(best: DataFrame, moved: DataFrame) -> DataFrame:
    """The final rows of the keys whose row changes. Without `_newer` only their first_* count."""
    firsts = {name: F.when(F.col(EARLIER), F.col(name)).otherwise(F.col("_first")[name]) for name in FIRST}
    return best.join(moved, on=KEY, how="inner").withColumns(firsts).drop("_first", "_period")


def cases(names: Sequence[str], *, newer: bool, older: bool) -> dict[str, Sequence[str]]:
    """Which columns an update sets: all where a version is newer; first_* where only an earlier one came.

    Only the cases that occur: for the second one all columns of the rows in question are read.
    """
    rest = [name for name in names if name not in KEY]
    return ({NEWER: rest} if newer else {}) | ({EARLIER: FIRST} if older else {})


def outcomes(source: DataFrame, rows: DataFrame, errors: DataFrame) -> DataFrame:
    """Where every record of the source stands: its key's row, and its open error.

    rows    rows of Curated (of all these keys at least)     errors  open errors (of all these records at least)
    """
    per_key = rows.groupBy(*KEY).agg(F.count("*").alias("copies"), F.max(version()).alias("row"))
    wrong = errors.select(*IDENTITY).distinct().withColumn("is_error", F.lit(True))
    joined = source.select(*KEY, *IDENTITY).join(per_key, on=KEY, how="left")
    return joined.join(wrong, on=IDENTITY, how="left").select(
        *IDENTITY,
        version().alias("own"),
        "row",
        F.coalesce("copies", F.lit(0)).alias("copies"),
        F.coalesce("is_error", F.lit(False)).alias("is_error"),
    )


def is_current() -> Column:
    return ~F.col("is_error") & F.coalesce(F.col("row") == F.col("own"), F.lit(False))


def is_superseded() -> Column:
    return ~F.col("is_error") & F.coalesce(F.col("row") > F.col("own"), F.lit(False))


def is_missing() -> Column:
    return ~F.col("is_error") & F.coalesce(F.col("row") < F.col("own"), F.lit(True))


def is_doubled() -> Column:
    return (F.col("copies") > 1) | (
        F.col("is_error") & F.coalesce(F.col("row") == F.col("own"), F.lit(False))
    )
