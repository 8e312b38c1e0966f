"""The `schema_registry` table: one item per declared topic, read by the gates.

Conditional writes only. What a deployment writes is one transaction with the lease of the topic: who lost it can
neither open a gate nor put an error over a newer success.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lean_ops.aws.leases import Claim, Leases, lost
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.contracts.registry import RegistryEntry, Status
from lean_ops.errors import LeanOpsError, NotFoundError
from lean_ops.naming import Names

__all__ = ["Registry", "RegistryEntry", "Status"]

_CONFLICT_PAUSES = (0.05, 0.1, 0.2, 0.4)
_REFUSED = "ConditionalCheckFailed"
_DECLARED = "attribute_exists(topic_name)"

Value = str | bool


class Registry:
    """The topics of an environment."""

    def __init__(self, dynamodb: Any, names: Names, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._dynamodb, self._sleep = dynamodb, sleep
        self._table = names.state_table("schema_registry")
        self._leases = Leases(dynamodb, names)

    def load(self, topic: str) -> RegistryEntry | None:
        """A topic's entry; None while nobody has declared it here."""
        answer = self._dynamodb.get_item(TableName=self._table, Key=_key(topic), ConsistentRead=True)
        return _entry(answer["Item"]) if "Item" in answer else None

    def all(self) -> list[RegistryEntry]:
        """Every topic, by name."""
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True)
        return sorted(
            (_entry(item) for page in pages for item in page["Items"]), key=lambda entry: entry.topic
        )

    def declare(self, spec: TopicSpec, now: datetime) -> None:
        """Make a topic known, or its settings current; nothing else of its entry changes."""
        update = self._update(
            spec.topic,
            {"declared": spec.model_dump_json(), "updated_at": _text(now)},
            condition="attribute_not_exists(declared) OR declared <> :declared",
            first={"processing_enabled": False, "maintenance": False, "status": Status.NO_SCHEMA.value},
        )
        try:
            self._dynamodb.update_item(**update)
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return  # declared in these very words before

    def activate(self, claim: Claim, version: str, sha256: str, keys: KeysSpec, now: datetime) -> None:
        """A contract is in force and its tables are there: open the gate, and ask for its errors once more."""
        values: dict[str, Value] = {
            "processing_enabled": True,
            "status": Status.READY.value,
            "version": version,
            "sha256": sha256,
            "keys": keys.model_dump_json(),
            "error": "",
            "revalidate_errors": version,
            "updated_at": _text(now),
        }
        self._write(claim, self._update(claim.name, values))

    def confirm(self, claim: Claim, now: datetime) -> None:
        """What was handed in is the contract in force already: an error told before is settled."""
        values: dict[str, Value] = {"status": Status.READY.value, "error": "", "updated_at": _text(now)}
        self._write(claim, self._update(claim.name, values))

    def reject(self, claim: Claim, error: str, now: datetime) -> None:
        """A contract was refused. The one in force, if any, stays so: the gate is left as it is."""
        values: dict[str, Value] = {
            "status": Status.ERROR.value,
            "error": error,
            "updated_at": _text(now),
        }
        self._write(claim, self._update(claim.name, values))

    def revalidated(self, topic: str, version: str) -> bool:
        """The topic's open errors were validated with this version; False when a newer one asks again."""
        try:
            self._dynamodb.update_item(
                TableName=self._table,
                Key=_key(topic),
                UpdateExpression="REMOVE revalidate_errors",
                ConditionExpression="revalidate_errors = :version",
                ExpressionAttributeValues={":version": {"S": version}},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def pause(self, topic: str, reason: str, by: str, now: datetime) -> None:
        """Close the gate for people's reasons."""
        self._maintain(topic, reason, by, now, paused=True)

    def resume(self, topic: str, reason: str, by: str, now: datetime) -> None:
        """End a pause. The gate is open again if the topic has a contract."""
        self._maintain(topic, reason, by, now, paused=False)

    def _maintain(self, topic: str, reason: str, by: str, now: datetime, *, paused: bool) -> None:
        values: dict[str, Value] = {
            "maintenance": paused,
            "maintenance_reason": reason,
            "maintenance_by": by,
            "maintenance_since": _text(now),
            "updated_at": _text(now),
        }
        condition = f"{_DECLARED} AND maintenance <> :maintenance"
        try:
            self._dynamodb.update_item(**self._update(topic, values, condition))
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            entry = self.load(topic)
            # botocore repeats a call whose answer got lost: then the state that we meet is our own.
            if entry is None or (entry.maintenance_by, entry.maintenance_since) != (by, now):
                raise _not_maintained(topic, entry) from None

    def _update(
        self,
        topic: str,
        values: dict[str, Value],
        condition: str = _DECLARED,
        first: dict[str, Value] | None = None,
    ) -> dict[str, Any]:
        # Behind signs, because `status` and `keys` are words of DynamoDB's own.
        first = first or {}
        assignments = [f"#{name} = :{name}" for name in values]
        assignments += [f"#{name} = if_not_exists(#{name}, :{name})" for name in first]
        return {
            "TableName": self._table,
            "Key": _key(topic),
            "UpdateExpression": f"SET {', '.join(assignments)}",
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{name}": name for name in values | first},
            "ExpressionAttributeValues": {
                f":{name}": {"BOOL" if isinstance(value, bool) else "S": value}
                for name, value in (values | first).items()
            },
        }

    def _write(self, claim: Claim, update: dict[str, Any]) -> None:
        for pause in (*_CONFLICT_PAUSES, None):
            try:
                self._dynamodb.transact_write_items(
                    TransactItems=[self._leases.condition(claim), {"Update": update}]
                )
            except self._dynamodb.exceptions.TransactionCanceledException as error:
                codes = [reason.get("Code") for reason in error.response["CancellationReasons"]]
                if codes[0] == _REFUSED:
                    raise lost(claim) from None
                if _REFUSED in codes:
                    raise undeclared(claim.name) from None
                # The lease's own renewal may be in the middle of writing the item that we check.
                if pause is None or "TransactionConflict" not in codes:
                    raise
                self._sleep(pause)
            else:
                return


def undeclared(topic: str) -> NotFoundError:
    """The error of a topic without an entry."""
    return NotFoundError(
        f"topic {topic!r} is not in the registry: nobody has onboarded it in this environment",
        next_step=f"lean-ops topics onboard {topic}",
        topic=topic,
    )


def _not_maintained(topic: str, entry: RegistryEntry | None) -> LeanOpsError:
    if entry is None:
        return undeclared(topic)
    if not entry.maintenance:
        return LeanOpsError(f"topic {topic!r} is not paused", next_step="lean-ops schema status", topic=topic)
    return LeanOpsError(
        f"topic {topic!r} is paused by {entry.maintenance_by} since {entry.maintenance_since}: "
        f"{entry.maintenance_reason}",
        next_step=f"lean-ops topics resume {topic} --reason …, when that reason is gone",
        topic=topic,
    )


def _key(topic: str) -> dict[str, dict[str, str]]:
    return {"topic_name": {"S": topic}}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _entry(item: dict[str, Any]) -> RegistryEntry:
    texts = {name: value["S"] for name, value in item.items() if "S" in value}
    since = texts.get("maintenance_since")
    return RegistryEntry(
        topic=texts["topic_name"],
        declaration=texts["declared"],
        processing_enabled=item["processing_enabled"]["BOOL"],
        status=Status(texts["status"]),
        updated_at=datetime.fromisoformat(texts["updated_at"]),
        version=texts.get("version"),
        sha256=texts.get("sha256"),
        keys=KeysSpec.model_validate_json(texts["keys"]) if "keys" in texts else None,
        error=texts.get("error", ""),
        maintenance=item["maintenance"]["BOOL"],
        maintenance_reason=texts.get("maintenance_reason", ""),
        maintenance_by=texts.get("maintenance_by", ""),
        maintenance_since=datetime.fromisoformat(since) if since else None,
        revalidate_errors=texts.get("revalidate_errors"),
    )
