"""The mould is worth its code."""

from __future__ import annotations

from benchmarks import flatten


def test_the_mould_reads_payloads_three_times_as_fast_as_the_one_definition() -> None:
    rates = {rate.name: rate for rate in flatten.measure()}
    flatten.report(list(rates.values()))
    by_definition, by_mould = rates[flatten.DEFINITION], rates[flatten.MOULD]
    assert by_mould.megabytes_per_second >= 3 * by_definition.megabytes_per_second
