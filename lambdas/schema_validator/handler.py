"""A file in `schemas/{topic}/pending/` → the contract in force, or a report why not; every 5 minutes, what was left."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from lean_ops import runtime as runtimes
from lean_ops.aws import schema_ports
from lean_ops.aws.deployments import Ports
from lean_ops.aws.patience import dependency
from lean_ops.aws.schema_folder import pending_topics, topic_of
from lean_ops.contracts.deployment_result import DeploymentResult
from lean_ops.errors import LeanOpsError

logger = Logger(service="schema_validator")
metrics = Metrics(namespace="lean_ops", service="schema_validator")

# What a deployment takes at most once it has the lease.
_WORK_SECONDS = 60


@cache
def _ports() -> Ports:
    return schema_ports.ports(runtimes.from_variables(os.environ))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An event «Object Created», or the schedule. An exception makes Lambda try again: nothing is done twice."""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - _WORK_SECONDS
    if event["detail-type"] == "Scheduled Event":
        return {"deployed": _sweep(until)}
    topic = topic_of(event["detail"]["object"]["key"])
    if topic is None:
        return {"deployed": []}
    requester = event["detail"].get("requester", "unknown")
    result = schema_ports.deploy_when_free(_ports(), topic, requester=requester, until=until)
    return {"deployed": [_told(result)]}


def _sweep(until: float) -> list[dict[str, Any]]:
    """Files whose event was lost, or that came while a batch held the topic. One that cannot go on hides no other."""
    done = []
    for topic in pending_topics(_ports().s3, _ports().names):
        if time.monotonic() > until:
            logger.warning("out of time, the rest comes next time")
            break
        try:
            with dependency():
                result = schema_ports.deploy_when_free(_ports(), topic, requester="unknown", until=0)
            done.append(_told(result))
        except LeanOpsError as error:
            logger.warning("left for the next time", topic=topic, reason=str(error))
    return done


def _told(result: DeploymentResult) -> dict[str, Any]:
    metrics.add_metric(result.outcome, MetricUnit.Count, 1)
    metrics.flush_metrics()
    told = result.model_dump(include={"topic", "outcome", "version", "classification"})
    logger.info("deployed", result=told, findings=len(result.findings))
    return told
