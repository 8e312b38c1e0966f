"""SQS → Firehose: takes a batch of messages and reports those that must come again."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lean_ops import runtime as runtimes
from lean_ops.aws import ingestion
from lean_ops.aws.patience import Deadline, Patience
from lean_ops.ingestion import sqs_events
from lean_ops.ingestion.intake import Ports, Result, process

logger = Logger(service="sqs_processor")
metrics = Metrics(namespace="lean_ops", service="sqs_processor")

deadline = Deadline()
# Kept for counting and parking: a batch that ran into the time-out would do neither.
_RESERVE_SECONDS = 25.0


@cache
def _wiring() -> tuple[runtimes.Runtime, Ports]:
    runtime = runtimes.from_variables(os.environ)
    return runtime, ingestion.ports(runtime, Patience(deadline=deadline))


def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    runtime, ports = _wiring()
    deadline.at = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    failed: list[str] = []
    for topic, deliveries in sqs_events.by_topic(event, runtime.names).items():
        result = process(topic, deliveries, ports, time.time())
        _report(topic or "unknown", result)
        failed.extend(result.failed)
    return sqs_events.failures(failed)


def _report(topic: str, result: Result) -> None:
    """Counts and codes only: bodies, keys and ids may be personal."""
    metrics.add_dimension("topic", topic)
    for name, count in asdict(result.tally).items():
        if count or name == "accepted":
            metrics.add_metric(name, MetricUnit.Count, count)
    metrics.flush_metrics()
    if result.reasons:
        logger.warning("not every message was taken", topic=topic, reasons=dict(result.reasons))
    if result.tally.uncounted:
        logger.warning("taken, but perhaps not in the books", topic=topic, count=result.tally.uncounted)
