"""Days as few ranges: neighbours become one, and very many scattered ones their hull."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

_MAX_RANGES = 100


def day_ranges(days: Sequence[date]) -> list[tuple[date, date]]:
    """First and last day of each range."""
    ranges: list[tuple[date, date]] = []
    for day in sorted(set(days)):
        if ranges and day - ranges[-1][1] == timedelta(days=1):
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return [(ranges[0][0], ranges[-1][1])] if len(ranges) > _MAX_RANGES else ranges
