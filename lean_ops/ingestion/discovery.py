"""Which topics the source has: a listing that the bridge leaves, and the sightings that it tells the history."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from lean_ops.batch.outbox import OpsEvent
from lean_ops.config.specs import Spec
from lean_ops.naming import nearest_topic_name
from lean_ops.ops_tables import TOPIC_REGISTRY


class Listing(Spec):
    """Every topic of a Pub/Sub project at one moment, by its full name (`projects/…/topics/…`)."""

    project: str
    listed_at: Annotated[AwareDatetime, Field(strict=False)]
    topics: Annotated[tuple[str, ...], Field(strict=False)]


def topic_name(source: str) -> str:
    """The name that a Pub/Sub topic has, or would have, here; its own one when none fits."""
    own = source.rpartition("/")[2]
    return nearest_topic_name(own) or own


def sightings(listing: Listing, onboarded: Collection[str]) -> list[OpsEvent]:
    """One event per topic and listing: the first is when it was first seen, the newest when it was last."""
    return [_sighting(source, listing.listed_at, onboarded) for source in sorted(set(listing.topics))]


def _sighting(source: str, listed_at: datetime, onboarded: Collection[str]) -> OpsEvent:
    name = topic_name(source)
    return OpsEvent(
        TOPIC_REGISTRY.name,
        {
            "event_id": f"{source}/{listed_at.isoformat()}",
            "topic_name": name,
            "observed_ts": listed_at,
            "source": source,
            "onboarded": name in onboarded,
            "details": json.dumps({}),
        },
    )
