"""The mould must be worth its code."""

from __future__ import annotations

from benchmarks import flatten

LIMIT = 2.5


def test_the_mould_is_far_faster_than_the_one_definition() -> None:
    rates = {rate.name: rate for rate in flatten.measure()}
    flatten.report(list(rates.values()))
    ratio = rates[flatten.DEFINITION].microseconds / rates[flatten.MOULD].microseconds
    print(f"mould against definition: {ratio:.1f} times")
    assert ratio >= LIMIT
