"""Dead-letter queues → one archive object per batch, then rows in `dlq_errors` with the reason.

The archive comes first: a row never names an object that does not exist. Both may be done again.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lean_ops import runtime as runtimes
from lean_ops.aws import clients, error_tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.aws.patience import dependency
from lean_ops.errors import RetryableError
from lean_ops.ingestion import dead_letters, sqs_events
from lean_ops.ingestion.intake import Delivery
from lean_ops.tables import DLQ_ERRORS

logger = Logger(service="dlq_drainer")
metrics = Metrics(namespace="lean_ops", service="dlq_drainer")


@cache
def _wiring() -> tuple[runtimes.Runtime, Any, ErrorTable]:
    runtime = runtimes.from_variables(os.environ)
    catalog = open_catalog(runtime.environment, runtime.home)
    ensure_table(catalog, DLQ_ERRORS)
    return runtime, clients.client(runtime, "s3"), error_tables.dlq_errors(catalog)


def handler(event: dict[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    runtime, _, _ = _wiring()
    failed: list[str] = []
    for topic, deliveries in sqs_events.by_topic(event, runtime.names).items():
        try:
            _drain(topic, deliveries)
        except RetryableError as error:
            logger.warning("not drained, comes again", topic=topic, reason=str(error), count=len(deliveries))
            failed.extend(delivery.sqs_id for delivery in deliveries)
    return sqs_events.failures(failed)


def _drain(topic: str | None, deliveries: Sequence[Delivery]) -> None:
    runtime, store, errors = _wiring()
    rows = dead_letters.attempts(topic, deliveries, time.time())
    with dependency():
        store.put_object(
            Bucket=runtime.names.ops_bucket,
            Key=dead_letters.archive_key(topic, deliveries),
            Body=dead_letters.archive(rows, deliveries),
        )
    appended = errors.append(rows)
    metrics.add_dimension("topic", topic or "unknown")
    metrics.add_metric("drained", MetricUnit.Count, len(appended))
    metrics.flush_metrics()
    codes = Counter(row.error_code for row in appended)
    logger.info("drained", topic=topic, codes=dict(codes))
