"""Batches are cut to the limits of a call, in order, and nothing falls between two of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lean_ops.ingestion import chunks

items = st.lists(st.binary(max_size=20), max_size=60)
counts = st.integers(1, 10)


@given(items, counts)
def test_runs_by_count_are_the_items_in_order(blobs: list[bytes], most: int) -> None:
    runs = list(chunks.by_count(blobs, most))
    assert [blob for run in runs for blob in run] == blobs
    assert all(1 <= len(run) <= most for run in runs)


@given(items, counts, st.integers(1, 60))
def test_runs_by_size_keep_both_limits_unless_an_item_alone_breaks_one(
    blobs: list[bytes], most: int, most_bytes: int
) -> None:
    runs = list(chunks.by_size(blobs, len, most=most, most_bytes=most_bytes))
    assert [blob for run in runs for blob in run] == blobs
    assert all(1 <= len(run) <= most for run in runs)
    assert all(len(run) == 1 or sum(map(len, run)) <= most_bytes for run in runs)
