"""Wires ingestion's ports to AWS."""

from __future__ import annotations

from dataclasses import replace

from lean_ops.aws.alerts import AlertTopic
from lean_ops.aws.books import BreakerTable
from lean_ops.aws.clients import client
from lean_ops.aws.firehose import DeliveryStream
from lean_ops.aws.idempotency import IdempotencyTable
from lean_ops.aws.mappings import Mappings
from lean_ops.aws.patience import NEVER, ONE_ATTEMPT, PATIENT, Patience
from lean_ops.aws.queues import Queues
from lean_ops.ingestion.intake import Ports
from lean_ops.ingestion.outage import Outage
from lean_ops.runtime import Runtime


def ports(runtime: Runtime, patience: Patience = PATIENT) -> Ports:
    """What the processor needs. The patience's deadline is for delivering: parking and counting come after it."""
    afterwards = replace(patience, deadline=NEVER)
    following = outage(runtime, afterwards)
    state = client(runtime, "dynamodb", ONE_ATTEMPT)
    return Ports(
        IdempotencyTable(state, runtime.names.state_table("idempotency_keys"), patience),
        delivery_stream(runtime, patience),
        queues(runtime, afterwards),
        following.books,
        following,
    )


def outage(runtime: Runtime, patience: Patience = PATIENT) -> Outage:
    """What the breaker's controller needs."""
    names = runtime.names
    return Outage(
        Mappings(client(runtime, "lambda", ONE_ATTEMPT), names),
        AlertTopic(client(runtime, "sns", ONE_ATTEMPT), names.alert_topic_arn),
        books(runtime, patience),
    )


def books(runtime: Runtime, patience: Patience = PATIENT) -> BreakerTable:
    """The topics' breakers and counts."""
    state = client(runtime, "dynamodb", ONE_ATTEMPT)
    return BreakerTable(state, runtime.names.state_table("breakers"), patience)


def delivery_stream(runtime: Runtime, patience: Patience = PATIENT) -> DeliveryStream:
    """The shared Firehose stream."""
    return DeliveryStream(client(runtime, "firehose", ONE_ATTEMPT), runtime.names.delivery_stream, patience)


def queues(runtime: Runtime, patience: Patience = PATIENT) -> Queues:
    """The topics' queues."""
    return Queues(client(runtime, "sqs", ONE_ATTEMPT), runtime.names, patience)
