"""An object under Firehose's error prefix → rows in `firehose_errors`; every 15 minutes, those whose event was lost."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lean_ops import runtime as runtimes
from lean_ops.aws import clients, error_tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.collector import Collector
from lean_ops.aws.ddl import ensure_table
from lean_ops.resources import FIREHOSE_ERROR_PREFIX
from lean_ops.tables import FIREHOSE_ERRORS

logger = Logger(service="firehose_errors")
metrics = Metrics(namespace="lean_ops", service="firehose_errors")


@cache
def _collector() -> Collector:
    runtime = runtimes.from_variables(os.environ)
    catalog = open_catalog(runtime.environment, runtime.home)
    ensure_table(catalog, FIREHOSE_ERRORS)
    return Collector(
        clients.client(runtime, "s3"), runtime.names.ops_bucket, error_tables.firehose_errors(catalog)
    )


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """An event «Object Created», or the schedule. An exception makes Lambda try again: nothing is added twice."""
    if event["detail-type"] == "Scheduled Event":
        return _told("the schedule", _collector().collect_recent(time.time()))
    key = event["detail"]["object"]["key"]
    if not key.startswith(FIREHOSE_ERROR_PREFIX):
        return {"rows": 0}
    return _told(key, _collector().collect(key, time.time()))


def _told(cause: str, rows: int) -> dict[str, int]:
    metrics.add_metric("collected", MetricUnit.Count, rows)
    metrics.flush_metrics()
    logger.info("collected", cause=cause, rows=rows)
    return {"rows": rows}
