"""A listing of the source's topics → sightings for `ops_db.topic_registry`."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from lean_ops import runtime as runtimes
from lean_ops.aws import clients, discovery
from lean_ops.aws.discovery import Listings
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry
from lean_ops.resources import DISCOVERY_PREFIX

logger = Logger(service="topic_discovery")


@cache
def _wiring() -> tuple[Listings, Registry, Outbox]:
    runtime = runtimes.from_variables(os.environ)
    dynamodb, names = clients.client(runtime, "dynamodb"), runtime.names
    return Listings(clients.client(runtime, "s3"), names), Registry(dynamodb, names), Outbox(dynamodb, names)


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """An event «Object Created» under the prefix of listings. The same again adds nothing."""
    key = event["detail"]["object"]["key"]
    if not key.startswith(DISCOVERY_PREFIX):
        return {"topics": 0}
    listings, registry, outbox = _wiring()
    listing = listings.read(key)
    count = discovery.record(listing, registry, outbox)
    logger.info("recorded", project=listing.project, topics=count)
    return {"topics": count}
