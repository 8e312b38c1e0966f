"""Faults of data stop a batch above their rate, and only when there are enough records for a rate to mean something."""

from __future__ import annotations

import pytest

from lean_ops.batch.thresholds import CdeSpikeError, Verdict
from lean_ops.config.topics import QualitySpec

LIMITS = QualitySpec(error_rate=0.05, cde_violation_rate=0.10, min_records=100)


@pytest.mark.parametrize(("records", "violations"), [(100, 10), (99, 99), (1, 1), (100_000, 10_000), (0, 0)])
def test_up_to_the_limit_and_below_the_minimum_a_batch_goes_on(records: int, violations: int) -> None:
    Verdict(records, violations, violations).check(LIMITS, topic="orders", batch_id="b")


@pytest.mark.parametrize(("records", "violations"), [(100, 11), (100_000, 10_001), (100, 100)])
def test_above_the_limit_it_stops_and_says_how_it_goes_on(records: int, violations: int) -> None:
    with pytest.raises(CdeSpikeError, match=f"{violations} of {records} records") as caught:
        Verdict(records, violations, violations).check(LIMITS, topic="orders", batch_id="curate-orders-1-2")
    assert "lean-ops batch accept curate-orders-1-2" in caught.value.next_step


@pytest.mark.parametrize(("invalid", "alerts"), [(5, 0), (6, 1)])
def test_invalid_records_only_alert(invalid: int, alerts: int) -> None:
    assert len(Verdict(100, invalid, 0).alerts(LIMITS, "orders")) == alerts


def test_few_records_alert_nobody() -> None:
    assert Verdict(99, 99, 0).alerts(LIMITS, "orders") == ()
