"""Routes each Firehose record to its topic's RAW table.

Every recordId is answered, and the data is returned as it came: what cannot be routed fails alone, and
Firehose writes it to the error prefix, from where it can be replayed.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lean_ops import naming
from lean_ops.ingestion import raw_record

logger = Logger(service="firehose_transform")
metrics = Metrics(namespace="lean_ops", service="firehose_transform")


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    answers = [_answer(record) for record in event["records"]]
    counts = Counter(answer["result"] for answer in answers)
    for result in ("Ok", "ProcessingFailed"):
        metrics.add_metric(result, MetricUnit.Count, counts[result])
    metrics.flush_metrics()
    if counts["ProcessingFailed"]:
        logger.warning("records that are no RAW rows", count=counts["ProcessingFailed"])
    return {"records": answers}


def _answer(record: dict[str, Any]) -> dict[str, Any]:
    answer = {"recordId": record["recordId"], "data": record.get("data", "")}
    found = raw_record.decode(_decoded(answer["data"]))
    if found is None:
        return answer | {"result": "ProcessingFailed"}
    database, table = naming.raw_table(found.topic_name)
    route = {
        "destinationDatabaseName": database,
        "destinationTableName": table,
        "operation": "insert",
    }
    return answer | {"result": "Ok", "metadata": {"otfMetadata": route}}


def _decoded(data: object) -> bytes:
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        return b""
