"""What the registry says of a topic: whether it may be processed, under which contract, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lean_ops.config.topics import KeysSpec, TopicSpec


class Status(StrEnum):
    """How the newest contract that was handed in fared. ERROR says nothing about the one in force."""

    NO_SCHEMA = "NO_SCHEMA"
    READY = "READY"
    ERROR = "ERROR"


@dataclass(frozen=True)
class RegistryEntry:
    """One topic. `version` and `sha256` are those of the contract in force; `keys`, those it came into force with.

    Both must allow it before a topic is processed: `processing_enabled` belongs to the contract, `maintenance` to
    people. Neither ever changes the other. The declaration stays text until it is asked for: a gate must not fail
    because another release knows one key more.
    """

    topic: str
    declaration: str
    processing_enabled: bool
    status: Status
    updated_at: datetime
    version: str | None = None
    sha256: str | None = None
    keys: KeysSpec | None = None
    error: str = ""
    maintenance: bool = False
    maintenance_reason: str = ""
    maintenance_by: str = ""
    maintenance_since: datetime | None = None
    # The contract version with which the topic's open errors are still to be validated again.
    revalidate_errors: str | None = None

    @property
    def declared(self) -> TopicSpec:
        """The topic as it was reviewed, when it was onboarded last."""
        return TopicSpec.model_validate_json(self.declaration)

    @property
    def open(self) -> bool:
        """Whether the topic may be processed now."""
        return self.processing_enabled and not self.maintenance
