"""Reads the facts of which a deployment is decided: a topic's files, its entry, and the contract that it names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from lean_ops.aws.registry import Registry, RegistryEntry
from lean_ops.aws.schema_folder import INTENT, SchemaFolder, StoredFile
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts import contract_file, deployment
from lean_ops.contracts.deployment import ContractFile, Facts
from lean_ops.contracts.spec import ContractSpec
from lean_ops.errors import NotFoundError
from lean_ops.naming import Names


@dataclass(frozen=True)
class Reading:
    """The facts, and the very files that they were read from."""

    facts: Facts
    pending: StoredFile | None
    active: StoredFile | None


class FactReader:
    """Reads one topic's facts, as often as one likes."""

    def __init__(self, s3: Any, names: Names, registry: Registry, topic: str) -> None:
        self.folder = SchemaFolder(s3, names, topic)
        self._registry, self._topic = registry, topic
        self._store = SchemaStore(s3, names)
        # Files in active/ that the tables cannot take: put there by hand, and no obstacle to a sound one.
        self._refused: set[str] = set()

    def read(
        self, pending: StoredFile | None, entry: RegistryEntry | None, declared: TopicSpec | None
    ) -> Reading:
        """The facts of now about a file, for a topic that is declared like this, or not at all."""
        active = self.folder.read("active")
        handed_in = self._checked("pending", pending, declared) if pending else None
        in_place = self._checked("active", active, None) if active else None
        if in_place is not None and in_place.sha256 in self._refused:
            in_place = replace(in_place, contract=None)
        facts = Facts(
            topic=self._topic,
            declared=declared,
            known_topics=() if declared else tuple(each.topic for each in self._registry.all()),
            pending=handed_in,
            active=in_place,
            registered=self._registered(entry, in_place),
            registered_sha256=entry.sha256 if entry else None,
            keys=entry.keys if entry else None,
            was_in_force=handed_in is not None and handed_in.is_rollback and self._is_archived(handed_in),
        )
        return Reading(facts, pending, active)

    def refuse(self, file: ContractFile) -> None:
        """From now on the file counts as unsound."""
        self._refused.add(file.sha256)

    def _checked(self, place: str, found: StoredFile, declared: TopicSpec | None) -> ContractFile:
        address = self.folder.address(place)
        result = contract_file.read(address, found.content, declared)
        sha256 = hashlib.sha256(found.content).hexdigest()
        is_rollback = found.metadata.get(INTENT) == deployment.ROLLBACK
        return ContractFile(address, sha256, result.contract, result.findings, is_rollback)

    def _registered(self, entry: RegistryEntry | None, active: ContractFile | None) -> ContractSpec | None:
        if entry is None or entry.version is None or entry.sha256 is None:
            return None
        if active is not None and active.sha256 == entry.sha256:
            return active.contract
        return self._pinned(entry.version, entry.sha256)

    def _is_archived(self, file: ContractFile) -> bool:
        return file.contract is not None and self._pinned(file.contract.version, file.sha256) is not None

    def _pinned(self, version: str, sha256: str) -> ContractSpec | None:
        try:
            return self._store.pinned(self._topic, version, sha256).contract
        except NotFoundError:
            return None
