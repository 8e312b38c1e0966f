"""The source's topics on their way to the history, and what the history says of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry
from lean_ops.ingestion.discovery import Listing, sightings
from lean_ops.naming import Names
from lean_ops.ops_tables import TOPIC_REGISTRY
from lean_ops.resources import DISCOVERY_PREFIX

_ALL = 1_000_000


@dataclass(frozen=True)
class Listings:
    """Where the bridge leaves what it has listed: it may talk to Pub/Sub, the functions may not."""

    s3: Any
    names: Names

    def put(self, listing: Listing) -> str:
        """Leave a listing; the event of its object does the rest."""
        key = f"{DISCOVERY_PREFIX}{listing.project}.json"
        body = listing.model_dump_json().encode()
        self.s3.put_object(Bucket=self.names.ops_bucket, Key=key, Body=body)
        return key

    def read(self, key: str) -> Listing:
        found = self.s3.get_object(Bucket=self.names.ops_bucket, Key=key)
        return Listing.model_validate_json(found["Body"].read())


def record(listing: Listing, registry: Registry, outbox: Outbox) -> int:
    """Tell the history which topics were seen; the same listing again replaces itself."""
    events = sightings(listing, {entry.topic for entry in registry.all()})
    outbox.add(events)
    return len(events)


@dataclass(frozen=True)
class SeenTopic:
    """A topic of the source."""

    topic: str
    source: str
    first_seen: datetime
    last_seen: datetime
    onboarded: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def seen(catalog: Catalog, outbox: Outbox, onboarded: Iterable[str]) -> list[SeenTopic]:
    """Every topic that was ever seen, by name; whether it is onboarded is as of now."""
    rows = [event.values for event in outbox.waiting(TOPIC_REGISTRY.name, _ALL)]
    try:
        fields = ("topic_name", "source", "observed_ts")
        rows += (
            catalog.load_table(TOPIC_REGISTRY.identifier).scan(selected_fields=fields).to_arrow().to_pylist()
        )
    except NoSuchTableError:
        pass
    moments: dict[tuple[str, str], list[datetime]] = {}
    for row in rows:
        moments.setdefault((row["topic_name"], row["source"]), []).append(row["observed_ts"])
    known = set(onboarded)
    return [
        SeenTopic(topic, source, min(times), max(times), topic in known)
        for (topic, source), times in sorted(moments.items())
    ]
