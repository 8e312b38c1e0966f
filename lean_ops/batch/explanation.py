"""Where a message ended and why: facts from the tables in, an outcome and a timeline out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Outcome = Literal[
    "delivered", "superseded", "open_error", "parse_error", "waiting", "dead_letter", "undelivered", "missing"
]
Layer = Literal[
    "source", "dlq_errors", "firehose_errors", "raw", "parse_errors", "standardized", "errors", "curated"
]
Version = tuple[datetime, str]


@dataclass(frozen=True)
class Found:
    """A row of a table, and the commit that brought the file it stands in."""

    row: Mapping[str, Any]
    snapshot: int | None = None
    committed_at: datetime | None = None
    batch_id: str | None = None


@dataclass(frozen=True)
class Facts:
    """All that the tables hold about one message. `curated` is its key's row, whichever message that came from.

    `unread_by` is the hop that has not read the message yet, if that is why nothing became of it.
    """

    topic: str
    message_id: str
    publish_time: datetime
    raw: Sequence[Found] = ()
    standardized: Found | None = None
    curated: Found | None = None
    attempts: Mapping[Layer, Sequence[Found]] = field(default_factory=dict)
    unread_by: str | None = None

    @property
    def version(self) -> Version:
        return self.publish_time, self.message_id


@dataclass(frozen=True)
class Event:
    """One station of a message."""

    at: datetime
    layer: Layer
    text: str
    snapshot: int | None = None
    batch_id: str | None = None


@dataclass(frozen=True)
class Explanation:
    """What became of a message."""

    topic: str
    message_id: str
    publish_time: datetime
    idempotency_key: str | None
    outcome: Outcome
    why: str
    timeline: tuple[Event, ...]


def explain(facts: Facts) -> Explanation:
    """The outcome, its reason, and every station in the order of time."""
    outcome, why = _outcome(facts)
    copies = len(facts.raw)
    if copies > 1:
        why = f"{why}; it arrived {copies} times, and the first arrival counts"
    holder = facts.standardized or next(iter(facts.raw), None)
    key = holder.row.get("idempotency_key") if holder else None
    return Explanation(
        facts.topic,
        facts.message_id,
        facts.publish_time,
        key,
        outcome,
        why,
        tuple(sorted(_events(facts), key=_order)),
    )


def _outcome(facts: Facts) -> tuple[Outcome, str]:
    failed = _open(facts, "errors")
    if failed is not None:
        row = failed.row
        return (
            "open_error",
            f"{_violations(row)} (attempt {row['attempt']}, contract {row['contract_version']})",
        )
    if facts.standardized is not None:
        return _after_standardized(facts)
    failed = _open(facts, "parse_errors")
    if failed is not None:
        return "parse_error", f"{failed.row['error_code']}: {failed.row['detail']}"
    if facts.raw:
        return _unread(facts)
    return _before_raw(facts)


def _violations(row: Mapping[str, Any]) -> str:
    """Everything that is wrong with a record; of an older error only the first violation is known."""
    listed = json.loads(row.get("violations") or "[]")
    known = listed or [{"code": row["error_code"], "column": row["column_name"]}]
    return ", ".join(f"{each['code']} in {each['column']}" for each in known)


def _after_standardized(facts: Facts) -> tuple[Outcome, str]:
    if facts.curated is not None:
        held = version_of(facts.curated.row)
        if held == facts.version:
            return "delivered", "it is the current version of its key"
        if held > facts.version:
            return "superseded", f"its key has a greater version: {held[1]} of {moment(held[0])}"
    return _unread(facts)


def _unread(facts: Facts) -> tuple[Outcome, str]:
    if facts.unread_by is not None:
        return "waiting", f"{facts.unread_by} has not read it yet"
    return "missing", "it was read, and has no outcome: lean-ops verify says what else is wrong"


def _before_raw(facts: Facts) -> tuple[Outcome, str]:
    stuck: tuple[tuple[Layer, Outcome], ...] = (
        ("dlq_errors", "dead_letter"),
        ("firehose_errors", "undelivered"),
    )
    for layer, outcome in stuck:
        failed = _open(facts, layer)
        if failed is not None:
            return outcome, f"{failed.row['error_code']}: {failed.row['detail']}"
    return "waiting", "it was replayed and has not arrived in RAW again yet"


def _open(facts: Facts, layer: Layer) -> Found | None:
    attempts = facts.attempts.get(layer, ())
    latest = max(attempts, key=lambda each: each.row["attempt"], default=None)
    return latest if latest is not None and latest.row["status"] == "open" else None


def _events(facts: Facts) -> list[Event]:
    events = [Event(facts.publish_time, "source", "published")]
    for found in facts.raw:
        arrived = datetime.fromtimestamp(found.row["ingestion_ts"] / 1000, UTC)
        events.append(Event(arrived, "raw", "arrived", found.snapshot, found.batch_id))
    for layer, attempts in facts.attempts.items():
        for found in attempts:
            row = found.row
            text = f"attempt {row['attempt']} {row['status']}: {row['error_code']}"
            events.append(Event(row["detected_at"], layer, text, found.snapshot, row["batch_id"]))
    if facts.standardized is not None:
        period = facts.standardized.row["period_reference"]
        events.append(_committed(facts.standardized, "standardized", f"standardized in period {period}"))
    if facts.curated is not None:
        held = version_of(facts.curated.row)
        text = "current" if held == facts.version else f"its key holds {held[1]} of {moment(held[0])}"
        events.append(_committed(facts.curated, "curated", text))
    return events


def _committed(found: Found, layer: Layer, text: str) -> Event:
    at = found.committed_at or found.row["publish_time"]
    return Event(at, layer, text, found.snapshot, found.batch_id)


def version_of(row: Mapping[str, Any]) -> Version:
    """What decides which of two rows of a key is current."""
    return row["publish_time"], row["message_id"]


def moment(at: datetime) -> str:
    """A point in time, for people."""
    return at.astimezone(UTC).isoformat(sep=" ").replace("+00:00", "Z")


_STATIONS: tuple[Layer, ...] = (
    "source", "dlq_errors", "firehose_errors", "raw", "parse_errors", "standardized", "errors", "curated",
)  # fmt: skip


def _order(event: Event) -> tuple[datetime, int]:
    return event.at, _STATIONS.index(event.layer)
