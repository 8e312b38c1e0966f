"""What a message is: `(message_id, publish_time)`, and the fingerprint of many."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lean_ops import fingerprints

IDENTITY = ["message_id", "publish_time"]


def fingerprint(condition: Column | None = None) -> Column:
    """The fingerprint of the rows (that meet a condition), zero for none."""
    each = F.expr(fingerprints.sql("spark"))
    return F.coalesce(F.sum(each if condition is None else F.when(condition, each)), F.lit(0)).cast(
        "decimal(38,0)"
    )
