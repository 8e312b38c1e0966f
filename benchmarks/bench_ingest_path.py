"""Ingestion on one machine keeps up with its limits, and its memory does not grow with what has passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import ingest_path
from tests.e2e.stack import running

MESSAGES = 200_000
SQS_LIMIT, FIREHOSE_LIMIT, GROWTH_LIMIT = 300, 4_000, 0.15


@pytest.mark.timeout(1800)
def test_the_path_keeps_its_rates_and_its_memory(tmp_path: Path) -> None:
    with running(tmp_path, "local", fast=False) as stack:
        sqs = ingest_path.through_sqs(stack, MESSAGES)
        firehose = ingest_path.through_firehose(stack, MESSAGES)
    print(f"SQS to RAW: {sqs}\nFirehose to RAW: {firehose}")
    assert sqs.rate >= SQS_LIMIT
    assert firehose.rate >= FIREHOSE_LIMIT
    assert max(sqs.growth, firehose.growth) < GROWTH_LIMIT
