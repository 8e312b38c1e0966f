"""Restricts frames to publish days, in a form that prunes Iceberg partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops.batch.batch_plan import SourceRange

_MAX_RANGES = 100


def published_on(days: Sequence[date]) -> Column:
    """Rows of these days. Neighbouring days become one range; very many scattered ones their hull."""
    ranges = _ranges(days)
    if not ranges:
        return F.lit(False)
    if len(ranges) > _MAX_RANGES:
        ranges = [(ranges[0][0], ranges[-1][1])]
    return reduce(Column.__or__, (_within(first, last) for first, last in ranges))


def slice_of(frame: DataFrame, source_range: SourceRange) -> DataFrame:
    """The rows of a range's own days; a side that is open takes all."""
    if source_range.first_day is not None:
        frame = frame.where(F.col("publish_time") >= F.lit(_midnight(source_range.first_day)))
    if source_range.last_day is not None:
        frame = frame.where(
            F.col("publish_time") < F.lit(_midnight(source_range.last_day + timedelta(days=1)))
        )
    return frame


def _ranges(days: Sequence[date]) -> list[tuple[date, date]]:
    ranges: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if ranges and day - ranges[-1][1] == timedelta(days=1):
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return ranges


def _within(first: date, last: date) -> Column:
    moment = F.col("publish_time")
    return (moment >= F.lit(_midnight(first))) & (moment < F.lit(_midnight(last + timedelta(days=1))))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
