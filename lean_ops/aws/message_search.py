"""Gathers what every table of a topic holds about a message or a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lean_ops import naming, tables
from lean_ops.aws import lake, row_filters
from lean_ops.aws.row_search import rows_with
from lean_ops.batch.explanation import Facts, Found, Layer, explain

_ATTEMPTS: dict[Layer, tables.TableSpec] = {
    "dlq_errors": tables.DLQ_ERRORS,
    "firehose_errors": tables.FIREHOSE_ERRORS,
    "parse_errors": tables.PARSE_ERRORS,
    "errors": tables.ERRORS,
}
_IDENTITY = ("message_id", "publish_time")
_RAW = (*_IDENTITY, "ingestion_ts", "idempotency_key")
_STANDARDIZED = (*_RAW, "period_reference")
_CURATED = (*_IDENTITY, "idempotency_key", "period_reference", "first_message_id", "contract_version")
_ATTEMPT = (
    *_IDENTITY, "attempt", "status", "error_code", "detail", "batch_id", "detected_at", "column_name",
    "contract_version", "violations",
)  # fmt: skip

Identity = tuple[str, datetime]


class MessageSearch:
    """One topic's tables; those that do not exist hold nothing."""

    def __init__(self, catalog: Catalog, topic: str) -> None:
        self._topic = topic
        self._raw = _load(catalog, naming.raw_table(topic))
        self._standardized = _load(catalog, naming.standardized_table(topic))
        self._curated = _load(catalog, naming.curated_table(topic))
        self._attempts = {layer: _load(catalog, spec.identifier) for layer, spec in _ATTEMPTS.items()}

    def of_message(self, message_id: str) -> list[Facts]:
        """Every message that has this id; a second one of another publish time is another message."""
        return self._facts([message_id], _rows(self._standardized, "message_id", [message_id], _STANDARDIZED))

    def of_key(self, key: str) -> list[Facts]:
        """Every message that is a version of this key, as far as its key could be read."""
        versions = _rows(self._standardized, "idempotency_key", [key], _STANDARDIZED)
        elsewhere = (
            *_rows(self._raw, "idempotency_key", [key], _IDENTITY),
            *self._about("parse_errors", "idempotency_key", [key]),
        )
        ids = {found.row["message_id"] for found in (*versions, *elsewhere)}
        known = {_identity(found) for found in (*versions, *elsewhere)}
        return [facts for facts in self._facts(sorted(ids), versions) if facts.version[::-1] in known]

    def _facts(self, ids: Sequence[str], standardized: Sequence[Found]) -> list[Facts]:
        raw = _rows(self._raw, "message_id", ids, _RAW)
        attempts = {layer: self._about(layer, "message_id", ids) for layer in _ATTEMPTS}
        keys = {found.row["idempotency_key"] for found in standardized} - {None}
        held = {found.row["idempotency_key"]: found for found in self._held(sorted(keys))}
        rows = {_identity(found): found for found in standardized}
        failed = (found for layer in attempts.values() for found in layer)
        seen = {_identity(found) for found in (*raw, *standardized, *failed)}
        return [
            self._with_unread(
                Facts(
                    topic=self._topic,
                    message_id=identity[0],
                    publish_time=identity[1],
                    raw=_of(identity, raw),
                    standardized=rows.get(identity),
                    curated=held.get(rows[identity].row["idempotency_key"]) if identity in rows else None,
                    attempts={layer: _of(identity, found) for layer, found in attempts.items()},
                )
            )
            for identity in sorted(seen, key=lambda each: each[::-1])
        ]

    def _with_unread(self, facts: Facts) -> Facts:
        """Who has not read the message yet: looked up only where nothing else says what became of it."""
        if explain(facts).outcome != "missing":
            return facts
        return replace(facts, unread_by=self._unread_by(facts))

    def _held(self, keys: Sequence[str]) -> list[Found]:
        return _rows(self._curated, "idempotency_key", keys, _CURATED)

    def _about(self, layer: Layer, column: str, values: Sequence[str]) -> list[Found]:
        table = self._attempts[layer]
        where = row_filters.of_topic(self._topic)
        found = rows_with(table, column, values, _ATTEMPT, where=where) if table else []
        return sorted(found, key=lambda each: each.row["attempt"])

    def _unread_by(self, facts: Facts) -> str | None:
        """The next hop, unless its newest batch had this message before it."""
        source, target, hop = (
            (self._standardized, self._curated, "curate")
            if facts.standardized
            else (self._raw, self._standardized, "standardize")
        )
        token = lake.newest_token(target) if target else None
        day = facts.publish_time.date()
        if source is None or token is None or (token.last_day and day > token.last_day):
            return hop
        if source.snapshot_by_id(token.end_snapshot) is None:
            return None
        read = rows_with(
            source,
            "message_id",
            [facts.message_id],
            _IDENTITY,
            where=row_filters.published(day, day),
            snapshot=token.end_snapshot,
        )
        return None if (facts.message_id, facts.publish_time) in map(_identity, read) else hop


def _load(catalog: Catalog, identifier: tuple[str, str]) -> Table | None:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None


def _rows(table: Table | None, column: str, values: Sequence[Any], fields: Iterable[str]) -> list[Found]:
    return rows_with(table, column, values, fields) if table else []


def _identity(found: Found) -> Identity:
    return found.row["message_id"], found.row["publish_time"]


def _of(identity: Identity, found: Iterable[Found]) -> list[Found]:
    return [each for each in found if _identity(each) == identity]
