"""Reads the SQS event of a Lambda function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lean_ops.ingestion.intake import Delivery
from lean_ops.naming import Names, topic_name_fault

Deliveries = Mapping[str | None, Sequence[Delivery]]


def by_topic(event: Mapping[str, Any], names: Names) -> Deliveries:
    """The deliveries of each topic: the queue alone says which. None stands for a queue of no topic."""
    found: dict[str | None, list[Delivery]] = defaultdict(list)
    for record in event["Records"]:
        attributes = record["attributes"]
        found[_topic(record["eventSourceARN"], names)].append(
            Delivery(
                record["messageId"],
                record["body"],
                int(attributes["SentTimestamp"]) * 1000,
                int(attributes["ApproximateReceiveCount"]),
            )
        )
    return found


def failures(sqs_ids: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """What a function answers so that only these messages are delivered again."""
    return {"batchItemFailures": [{"itemIdentifier": sqs_id} for sqs_id in sqs_ids]}


def _topic(arn: str, names: Names) -> str | None:
    queue = arn.rsplit(":", 1)[-1]
    topic = names.topic_of_queue(queue)
    ours = queue in (names.queue(topic), names.dead_letter_queue(topic))
    return topic if ours and topic_name_fault(topic) is None else None
