"""Publishes measurements to CloudWatch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lean_ops.aws.patience import dependency
from lean_ops.batch.run_record import Metric

NAMESPACE = "lean-ops"


def publish(cloudwatch: Any, environment: str, metrics: Sequence[Metric], now: datetime) -> None:
    """All of them in one call; a run has far fewer than the thousand that a call takes."""
    data = [
        {
            "MetricName": metric.name,
            "Value": metric.value,
            "Unit": metric.unit,
            "Timestamp": now,
            "Dimensions": [
                {"Name": name, "Value": value}
                for name, value in {"Environment": environment, **metric.dimensions}.items()
            ],
        }
        for metric in metrics
    ]
    with dependency():
        cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
