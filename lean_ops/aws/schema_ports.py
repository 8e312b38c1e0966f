"""Wires the deployment of contracts to AWS."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from botocore.config import Config

from lean_ops.aws.alerts import AlertTopic
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import client
from lean_ops.aws.deployments import Ports, deploy
from lean_ops.aws.leases import LeaseHeldError, Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry
from lean_ops.batch.steps import Steps
from lean_ops.contracts.deployment_result import DeploymentResult
from lean_ops.runtime import Runtime

# botocore's standard mode: growing pauses with jitter. 700 topics handed in at once are throttled, and all arrive.
RETRYING = Config(retries={"mode": "standard", "total_max_attempts": 10})
_LONGEST_PAUSE = 5.0


def ports(runtime: Runtime) -> Ports:
    """What a deployment touches, in an environment."""
    dynamodb, names = client(runtime, "dynamodb", RETRYING), runtime.names
    return Ports(
        s3=client(runtime, "s3", RETRYING),
        names=names,
        catalog=open_catalog(runtime.environment, runtime.home),
        leases=Leases(dynamodb, names),
        registry=Registry(dynamodb, names),
        outbox=Outbox(dynamodb, names),
        alerts=AlertTopic(client(runtime, "sns", RETRYING), names.alert_topic_arn),
        clock=lambda: datetime.now(UTC),
    )


def deploy_when_free(
    ports: Ports,
    topic: str,
    *,
    requester: str,
    until: float,
    sleep: Callable[[float], None] = time.sleep,
) -> DeploymentResult:
    """Deploy as soon as the topic's lease is free; LeaseHeldError when it is not by `until` (monotonic)."""
    owner = f"schema-{uuid.uuid4().hex}"
    pause = 0.2
    while True:
        try:
            return deploy(ports, topic, owner, Steps(topic=topic), requester=requester)
        except LeaseHeldError:
            if time.monotonic() + pause > until:
                raise
        sleep(pause * (0.5 + random.random() / 2))  # noqa: S311
        pause = min(pause * 2, _LONGEST_PAUSE)
