"""Hands contract files in, as a person or a pipeline does, and waits for what becomes of them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.registry import Registry, undeclared
from lean_ops.aws.schema_folder import BY, INTENT, SchemaFolder
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.contracts import deployment
from lean_ops.contracts.deployment_result import Outcome
from lean_ops.errors import LeanOpsError, NotFoundError
from lean_ops.naming import Names

_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class HandedIn:
    """A file on its way."""

    topic: str
    etag: str
    sha256: str


@dataclass(frozen=True)
class Desk:
    """Where files are handed in."""

    s3: Any
    registry: Registry
    names: Names

    def hand_in(self, topic: str, content: bytes, by: str, *, is_rollback: bool = False) -> HandedIn:
        """Put a file into pending/ of a declared topic. A file that is there already is replaced: the later wins."""
        if self.registry.load(topic) is None:
            raise undeclared(topic)
        # S3 keeps ASCII only.
        metadata = {BY: by.encode("ascii", "backslashreplace").decode()}
        if is_rollback:
            metadata[INTENT] = deployment.ROLLBACK
        etag = self.folder(topic).hand_in(content, metadata)
        return HandedIn(topic, etag, hashlib.sha256(content).hexdigest())

    def archived(self, topic: str, version: str) -> bytes:
        """The newest file of a version that was in force."""
        keys = SchemaStore(self.s3, self.names).archived(topic)
        names = [key.rpartition("/")[2] for key in keys]
        fitting = [key for key, name in zip(keys, names, strict=True) if name.partition("-")[0] == version]
        if not fitting:
            known = sorted({name.partition("-")[0] for name in names})
            raise NotFoundError(
                f"version {version} of topic {topic!r} is not in the archive: there is {', '.join(known) or 'none'}",
                next_step=f"lean-ops schema history {topic}",
                topic=topic,
            )
        content: bytes = self.s3.get_object(Bucket=self.names.ops_bucket, Key=fitting[-1])["Body"].read()
        return content

    def outcome(self, file: HandedIn) -> Outcome | None:
        """What became of a file; None while it waits. `nothing` when a later one took its place."""
        pending = self.folder(file.topic).read("pending")
        if pending is not None and pending.etag == file.etag:
            return None
        entry = self.registry.load(file.topic)
        if entry is not None and entry.sha256 == file.sha256:
            return "activated"
        failure = self.folder(file.topic).failure()
        if failure is not None and failure["etag"] == file.etag:
            return "rejected"
        return "nothing"

    def await_outcome(
        self, file: HandedIn, seconds: float, *, sleep: Callable[[float], None] = time.sleep
    ) -> Outcome:
        """What became of a file, within so many seconds."""
        deadline = time.monotonic() + seconds
        while (outcome := self.outcome(file)) is None:
            if time.monotonic() > deadline:
                raise LeanOpsError(
                    f"the contract of {file.topic} still waits after {seconds:.0f} s: a batch may hold the topic",
                    next_step=f"lean-ops schema status {file.topic}",
                    topic=file.topic,
                )
            sleep(_POLL_SECONDS)
        return outcome

    def folder(self, topic: str) -> SchemaFolder:
        return SchemaFolder(self.s3, self.names, topic)
