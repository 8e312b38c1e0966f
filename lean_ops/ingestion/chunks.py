"""Cuts a series to the limits of a batch call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def by_count(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Runs of at most `most` items, in order; what is not asked for is not read."""
    remaining = iter(items)
    while run := list(islice(remaining, most)):
        yield run


def by_size(
    items: Iterable[Item], size_of: Callable[[Item], int], *, most: int, most_bytes: int
) -> Iterator[list[Item]]:
    """Runs within both limits, in order. An item above the limit goes alone: the callee will refuse it."""
    run: list[Item] = []
    run_bytes = 0
    for item in items:
        size = size_of(item)
        if run and (len(run) == most or run_bytes + size > most_bytes):
            yield run
            run, run_bytes = [], 0
        run.append(item)
        run_bytes += size
    if run:
        yield run
