"""The files of one topic under `schemas/{topic}/`: read whole or not at all, and never overwritten blindly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from lean_ops.contracts.contract_file import MAX_BYTES
from lean_ops.naming import Names
from lean_ops.resources import SCHEMA_PREFIX

BY, INTENT = "deployed-by", "intent"
_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "412"}


class OvertakenError(Exception):
    """A file is no longer the one that was read: what is to be done has to be found out anew."""


@dataclass(frozen=True)
class StoredFile:
    """A file as it was read. Of one that is too large, only the beginning: enough to refuse it."""

    content: bytes
    etag: str
    since: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def by(self) -> str:
        return self.metadata.get(BY, "unknown")


class SchemaFolder:
    """`pending/`, `active/`, `failed/` and `archive/` of a topic."""

    def __init__(self, s3: Any, names: Names, topic: str) -> None:
        self._s3, self._bucket = s3, names.ops_bucket
        self._root = f"{SCHEMA_PREFIX}{topic}"

    def address(self, place: str) -> str:
        return f"s3://{self._bucket}/{self._key(place)}"

    def read(self, place: str) -> StoredFile | None:
        """The file in `pending` or `active`, its content and its tag of one moment."""
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=self._key(place))
        except self._s3.exceptions.NoSuchKey:
            return None
        with found["Body"] as body:
            content = body.read(MAX_BYTES + 1)
        return StoredFile(content, found["ETag"], found["LastModified"].astimezone(UTC), found["Metadata"])

    def hand_in(self, content: bytes, metadata: Mapping[str, str]) -> str:
        """Put a file into pending/, which starts its deployment; returns its tag."""
        key = self._key("pending")
        answer = self._s3.put_object(Bucket=self._bucket, Key=key, Body=content, Metadata=dict(metadata))
        return str(answer["ETag"])

    def archive(self, active: StoredFile, version: str) -> None:
        """Keep a file that is to be replaced, under the time since when it is in force: again, the same place."""
        name = f"{version}-{active.since:%Y%m%dT%H%M%SZ}.json"
        key = f"{self._root}/archive/{name}"
        metadata = dict(active.metadata)
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=active.content, Metadata=metadata)

    def activate(self, pending: StoredFile, replaced: StoredFile | None) -> None:
        """Make the file active, if it is still the pending one and replaces the one that was read."""
        condition = {"IfMatch": replaced.etag} if replaced else {"IfNoneMatch": "*"}
        with _overtaking():
            self._s3.head_object(Bucket=self._bucket, Key=self._key("pending"), IfMatch=pending.etag)
            self._s3.put_object(
                Bucket=self._bucket,
                Key=self._key("active"),
                Body=pending.content,
                Metadata=dict(pending.metadata),
                **condition,
            )

    def keep_failed(self, pending: StoredFile, report: Mapping[str, Any]) -> None:
        """The refused file, copied by S3 itself whatever its size, and why it was refused."""
        source = {"Bucket": self._bucket, "Key": self._key("pending")}
        with _overtaking():
            self._s3.copy_object(
                Bucket=self._bucket,
                Key=self._key("failed"),
                CopySource=source,
                CopySourceIfMatch=pending.etag,
            )
        body = json.dumps({**report, "etag": pending.etag}, indent=2).encode()
        self._s3.put_object(Bucket=self._bucket, Key=self._error_key, Body=body)

    def failure(self) -> dict[str, Any] | None:
        """What failed/error.json says."""
        try:
            found = self._s3.get_object(Bucket=self._bucket, Key=self._error_key)
        except self._s3.exceptions.NoSuchKey:
            return None
        report: dict[str, Any] = json.loads(found["Body"].read())
        return report

    def clear_failed(self) -> None:
        """An older failure says nothing about the file that is in force now."""
        for key in (self._error_key, self._key("failed")):
            self._s3.delete_object(Bucket=self._bucket, Key=key)

    def remove_pending(self, etag: str) -> None:
        """Remove the file that was dealt with. A newer one stays, and is dealt with next."""
        with suppress(OvertakenError), _overtaking():
            self._s3.delete_object(Bucket=self._bucket, Key=self._key("pending"), IfMatch=etag)

    @property
    def _error_key(self) -> str:
        return f"{self._root}/failed/error.json"

    def _key(self, place: str) -> str:
        return f"{self._root}/{place}/schema.json"


def pending_topics(s3: Any, names: Names) -> list[str]:
    """The topics with a file in pending/. One listing, however many there are."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=names.ops_bucket, Prefix=SCHEMA_PREFIX)
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    return [topic for topic in map(topic_of, keys) if topic is not None]


def topic_of(key: str) -> str | None:
    """The folder whose pending file a key names; whether a topic has that name is another question."""
    ending = "/pending/schema.json"
    if not key.startswith(SCHEMA_PREFIX) or not key.endswith(ending):
        return None
    return key[len(SCHEMA_PREFIX) : -len(ending)]


@contextmanager
def _overtaking() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in _CHANGED:
            raise
        raise OvertakenError(error.operation_name) from error
