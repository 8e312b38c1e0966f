"""The processor must be far faster than idempotency record by record."""

from __future__ import annotations

from benchmarks import ingest_processor

LIMIT = 15.0


def test_batches_beat_idempotency_record_by_record() -> None:
    rates = ingest_processor.measure()
    print(f"{rates.ours:.0f} records/s, record by record {rates.per_record:.0f}: {rates.ratio:.1f} times")
    assert rates.ratio >= LIMIT
