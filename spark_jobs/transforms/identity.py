"""What a message is: `(message_id, publish_time)`, and the fingerprint of many."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops import fingerprints

IDENTITY = ["message_id", "publish_time"]
HASH = "_identity_hash"


_HALF = 1 << 30


def hashed(frame: DataFrame) -> DataFrame:
    """The frame with the hash of each identity: computed once, however many fingerprints are summed."""
    return frame.withColumn(HASH, F.expr(fingerprints.sql("spark")))


def fingerprint(condition: Column | None = None) -> Column:
    """The fingerprint of the rows of a `hashed` frame (that meet a condition), zero for none.

    Summed in two halves, which no table is long enough to overflow: sums of decimals cost many times as much.
    """
    high, low = F.shiftright(HASH, 30), F.col(HASH).bitwiseAND(F.lit(_HALF - 1))
    if condition is not None:
        high, low = F.when(condition, high), F.when(condition, low)
    sums = (F.coalesce(F.sum(half), F.lit(0)).cast("decimal(20,0)") for half in (high, low))
    return next(sums) * F.lit(_HALF).cast("decimal(10,0)") + next(sums)
