"""Row filters for pyiceberg scans, in the words of this domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any

from pyiceberg import expressions
from pyiceberg.expressions import BooleanExpression

from lean_ops.batch.day_ranges import day_ranges

# Their constructors are invisible to the type checker (pydantic's plugin takes them for models).
_expressions: Any = expressions


def of_topic(topic: str) -> BooleanExpression:
    """Rows of a shared table that belong to a topic."""
    found: BooleanExpression = _expressions.EqualTo("topic_name", topic)
    return found


def published(first: date, last: date) -> BooleanExpression:
    """Rows published on these days, both included: the partitions of every table before Curated."""
    return on_days("publish_time", first, last)


def on_days(column: str, first: date, last: date) -> BooleanExpression:
    """Rows whose point in time falls on these days of UTC, both included."""
    start = datetime.combine(first, datetime.min.time(), UTC)
    end = datetime.combine(last, datetime.min.time(), UTC) + timedelta(days=1)
    return both(
        _expressions.GreaterThanOrEqual(column, start.isoformat()),
        _expressions.LessThan(column, end.isoformat()),
    )


def published_on(days: Sequence[date]) -> BooleanExpression:
    """Rows published on one of these days."""
    ranges = [published(first, last) for first, last in day_ranges(days)]
    found: BooleanExpression = reduce(_expressions.Or, ranges, _expressions.AlwaysFalse())
    return found


def among(column: str, values: Iterable[str]) -> BooleanExpression:
    """Rows whose column has one of the values."""
    found: BooleanExpression = _expressions.In(column, set(values))
    return found


def both(*filters: BooleanExpression) -> BooleanExpression:
    """Rows that satisfy every filter."""
    found: BooleanExpression = _expressions.And(*filters)
    return found
