"""Restricts frames to publish days, in a form that prunes Iceberg partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lean_ops.batch.day_ranges import day_ranges


def published_on(days: Sequence[date]) -> Column:
    """Rows of these days. Neighbouring days become one range; very many scattered ones their hull."""
    within = [_within(first, last) for first, last in day_ranges(days)]
    return reduce(Column.__or__, within) if within else F.lit(False)


def _within(first: date, last: date) -> Column:
    moment = F.col("publish_time")
    return (moment >= F.lit(_midnight(first))) & (moment < F.lit(_midnight(last + timedelta(days=1))))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
