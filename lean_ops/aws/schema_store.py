"""Contracts in S3: `schemas/{topic}/active/schema.json` is in force, `archive/{version}-{timestamp}.json` was."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from lean_ops.contracts import contract_file
from lean_ops.contracts.spec import ContractSpec
from lean_ops.errors import NotFoundError
from lean_ops.naming import Names
from lean_ops.resources import SCHEMA_PREFIX


@dataclass(frozen=True)
class StoredContract:
    """A contract, and the hash of the very bytes that it was read from."""

    contract: ContractSpec
    sha256: str
    key: str


class SchemaStore:
    """The contracts of an environment."""

    def __init__(self, s3: Any, names: Names) -> None:
        self._s3, self._bucket = s3, names.ops_bucket

    def active(self, topic: str) -> StoredContract:
        """The contract in force; NotFoundError while the topic has none."""
        key = _active(topic)
        content = self._content(key)
        if content is None:
            raise NotFoundError(
                f"topic {topic!r} has no active contract: there is no s3://{self._bucket}/{key}",
                next_step=f"lean-ops schema deploy {topic}",
                topic=topic,
            )
        return self._checked(key, content)

    def archived(self, topic: str) -> list[str]:
        """The keys of the contracts that were in force, oldest version first."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{SCHEMA_PREFIX}{topic}/archive/"
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted((key for key in keys if key.endswith(".json")), key=_age)

    def pinned(self, topic: str, version: str, sha256: str) -> StoredContract:
        """The contract that a plan was made with: the active one, or the archived one with the same hash."""
        archived = [key for key in self.archived(topic) if _version(key) == version]
        for key in (_active(topic), *archived):
            content = self._content(key)
            if content is not None and hashlib.sha256(content).hexdigest() == sha256:
                return self._checked(key, content)
        raise NotFoundError(
            f"contract {version} of topic {topic!r} (sha256 {sha256[:12]}…) is neither active nor archived",
            next_step=f"restore it under s3://{self._bucket}/{SCHEMA_PREFIX}{topic}/archive/{version}-….json",
            topic=topic,
        )

    def of_version(self, topic: str, version: str) -> ContractSpec:
        """The contract that has a version, or had it last."""
        archived = [key for key in self.archived(topic) if _version(key) == version]
        for key in (_active(topic), *reversed(archived)):
            content = self._content(key)
            if content is not None and (found := self._checked(key, content).contract).version == version:
                return found
        raise NotFoundError(
            f"contract {version} of topic {topic!r} is neither active nor archived",
            next_step=f"restore it under s3://{self._bucket}/{SCHEMA_PREFIX}{topic}/archive/{version}-….json",
            topic=topic,
        )

    def _content(self, key: str) -> bytes | None:
        try:
            content: bytes = self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return None
        return content

    def _checked(self, key: str, content: bytes) -> StoredContract:
        contract = contract_file.read(f"s3://{self._bucket}/{key}", content).checked()
        return StoredContract(contract, hashlib.sha256(content).hexdigest(), key)


def _active(topic: str) -> str:
    return f"{SCHEMA_PREFIX}{topic}/active/schema.json"


def _version(key: str) -> str:
    return key.rpartition("/")[2].partition("-")[0]


def _age(key: str) -> tuple[list[int], str]:
    # As numbers: 1.10 comes after 1.9.
    return [int(part) if part.isdecimal() else -1 for part in _version(key).split(".")], key
