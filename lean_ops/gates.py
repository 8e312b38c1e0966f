"""Decides whether a topic's hops may start: facts in, open or closed with a reason in words out.

Force means "although nothing is new". It never opens a gate that was closed for a person's decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lean_ops.batch.next_batch import Decision, Finish, NothingNew, Read, Refused, Replay
from lean_ops.contracts.registry import RegistryEntry

AskedHop = Literal["all", "standardize", "curate"]


@dataclass(frozen=True)
class HopFacts:
    """What the tables and the state say of a hop. `held`: the data fault that waits for a decision, in words."""

    decision: Decision
    waiting_since: datetime | None = None
    held: str = ""

    @property
    def waiting(self) -> str:
        """What there is to do, in words; empty when nothing is new."""
        match self.decision:
            case NothingNew():
                return ""
            case Finish(plan) | Replay(plan):
                return f"batch {plan.batch_id} is open"
            case Refused(snapshot):
                return f"snapshot {snapshot.snapshot_id} was written by somebody unknown"
            case Read(found):
                return f"rows up to snapshot {found.end_snapshot} are new"


@dataclass(frozen=True)
class TopicFacts:
    """What is known of a topic. `curate` is None while it has no Curated table: no contract asks for one."""

    topic: str
    entry: RegistryEntry | None
    standardize: HopFacts
    curate: HopFacts | None


@dataclass(frozen=True)
class Gate:
    """Open or closed, and why."""

    open: bool
    reason: str


@dataclass(frozen=True)
class Asked:
    """What a manual run may ask for; a scheduled one asks for the defaults."""

    force: bool = False
    hop: AskedHop = "all"

    def wants(self, hop: Literal["standardize", "curate"]) -> bool:
        return self.hop in ("all", hop)


def schema_gate(facts: TopicFacts, asked: Asked) -> Gate:
    """Whether the run may begin at all: allowed by registry and people, and something to do in any hop."""
    forbidden = _forbidden(facts)
    if forbidden:
        return Gate(open=False, reason=forbidden)
    hops = [(name, gate) for name, gate in _hops(facts, asked) if gate is not None]
    opened = [f"{name}: {gate.reason}" for name, gate in hops if gate.open]
    if opened:
        return Gate(open=True, reason="; ".join(opened))
    return Gate(open=False, reason="; ".join(sorted({gate.reason for _, gate in hops})))


def curated_gate(facts: TopicFacts, asked: Asked) -> Gate:
    """Whether the second hop may begin: a pause that came meanwhile counts."""
    forbidden = _forbidden(facts)
    if forbidden:
        return Gate(open=False, reason=forbidden)
    if not asked.wants("curate"):
        return Gate(open=False, reason=f"only {asked.hop} was asked for")
    if facts.curate is None:
        return Gate(open=False, reason="no curated contract: the topic ends in Standardized")
    return hop_gate(facts.curate, asked)


def hop_gate(hop: HopFacts, asked: Asked) -> Gate:
    """Whether a hop has something to do and nobody has to decide first."""
    if hop.held:
        return Gate(open=False, reason=f"a data fault waits for a decision: {hop.held}")
    if hop.waiting:
        return Gate(open=True, reason=hop.waiting)
    if asked.force:
        return Gate(open=True, reason="forced, although nothing is new")
    return Gate(open=False, reason="no new data")


def _hops(facts: TopicFacts, asked: Asked) -> list[tuple[str, Gate | None]]:
    return [
        ("standardize", hop_gate(facts.standardize, asked) if asked.wants("standardize") else None),
        ("curate", curated_gate(facts, asked) if asked.wants("curate") and facts.curate else None),
    ]


def _forbidden(facts: TopicFacts) -> str:
    entry, topic = facts.entry, facts.topic
    if entry is None:
        return f"no schema: nobody has onboarded the topic here; next: lean-ops topics onboard {topic}"
    if entry.maintenance:
        return f"maintenance mode: {entry.maintenance_reason} ({entry.maintenance_by})"
    if entry.processing_enabled:
        return ""
    if entry.version is None:
        refused = f" ({entry.error})" if entry.error else ""
        return f"no schema: no contract is in force{refused}; the data waits in RAW"
    return f"processing is disabled for contract {entry.version}"
