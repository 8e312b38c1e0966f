"""Recomputes the books from the tables alone, by code that shares nothing with the code that writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lean_ops import fingerprints, identity, named_sql, naming, tables
from lean_ops.aws import lake
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.sql import query
from lean_ops.batch.batch_plan import Token
from lean_ops.config.topics import TopicSpec
from lean_ops.payload import payload_path, rederive
from lean_ops.runtime import Runtime

OFFENDERS = 20
_ENVELOPE = tuple(column.name for column in tables.STANDARDIZED_COLUMNS)


@dataclass(frozen=True)
class Check:
    """One statement about the tables, whether it is true, and what is wrong when it is not."""

    topic: str
    statement: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Verification:
    """The books of a topic per publish day, and the statements they prove."""

    topic: str
    days: list[dict[str, Any]]
    waiting: int
    checks: list[Check]


class Verifier:
    """One topic's tables, pinned to what its newest published batch had read."""

    def __init__(self, runtime: Runtime, topic: TopicSpec) -> None:
        self._runtime, self._topic = runtime, topic
        self._raw = naming.raw_table(topic.topic)
        self._standardized = naming.standardized_table(topic.topic)
        catalog = open_catalog(runtime.environment, runtime.home)
        self._raw_table = catalog.load_table(self._raw)
        try:
            self._standardized_table: Table | None = catalog.load_table(self._standardized)
        except NoSuchTableError:
            self._standardized_table = None
        self._token = lake.newest_token(self._standardized_table) if self._standardized_table else None

    def verify(self, sample: int) -> Verification:
        """The books, and with a sample also the values of that many messages derived from RAW once more."""
        if self._token is None:
            waiting = sum(snapshot.news.records for snapshot in lake.ancestry(self._raw_table))
            return Verification(self._topic.topic, [], waiting, [])
        days = self._ask("standardized_days")
        if self._topic.standardized_lifo == "batch":
            self._account_superseded(days)
        checks = [self._balanced(days), self._unique(days)]
        if sample:
            checks.append(self._values(sample))
        return Verification(self._topic.topic, days, self._waiting(self._token), checks)

    def _ask(self, template: str, **values: object) -> list[dict[str, Any]]:
        last_day = self._token.last_day if self._token else None
        dialect: fingerprints.Dialect = "duckdb" if self._runtime.environment.emulated else "athena"
        statement = named_sql.render(
            template,
            raw=named_sql.quoted(self._raw),
            standardized=named_sql.quoted(self._standardized),
            parse_errors=named_sql.quoted(tables.PARSE_ERRORS.identifier),
            topic=self._topic.topic,
            # While a range is being read by days, only the days that are done can balance.
            last_day=last_day + timedelta(days=1) if last_day else None,
            fingerprint=fingerprints.sql(dialect),
            sample_order=fingerprints.sql(dialect, "standardized.message_id", "standardized.publish_time"),
            **values,
        )
        pins = {self._raw: self._token.end_snapshot} if self._token else {}
        return query(self._runtime, statement, pins).records()

    def _waiting(self, token: Token) -> int:
        snapshots = lake.ancestry(self._raw_table)
        ids = [snapshot.snapshot_id for snapshot in snapshots]
        after = ids.index(token.end_snapshot) + 1 if token.end_snapshot in ids else 0
        return sum(snapshot.news.records for snapshot in snapshots[after:])

    def _balanced(self, days: list[dict[str, Any]]) -> Check:
        statement = "every message of RAW is in Standardized or in parse_errors"
        off = [day for day in days if day["missing"] or day["foreign_rows"] or not _prints_agree(day)]
        return Check(self._topic.topic, statement, not off, self._named() if off else "")

    def _unique(self, days: list[dict[str, Any]]) -> Check:
        statement = "no message is there twice"
        off = [day for day in days if day["doubled"]]
        return Check(self._topic.topic, statement, not off, self._named() if off else "")

    def _named(self) -> str:
        rows = self._ask("standardized_offenders", limit=OFFENDERS)
        return "; ".join(f"{row['fault']}: {row['message_id']} of {row['publish_time']}" for row in rows)

    def _account_superseded(self, days: list[dict[str, Any]]) -> None:
        """With `standardized_lifo: batch` a message may be missing because a greater version of its key is there."""
        greatest: dict[str, tuple[datetime, str]] = {}
        for row in self._ask("standardized_versions"):
            version = (row["publish_time"], row["message_id"])
            greatest[row["idempotency_key"]] = max(greatest.get(row["idempotency_key"], version), version)
        by_day = {day["day"]: day for day in days}
        for row in self._ask("standardized_missing"):
            version = (row["publish_time"], row["message_id"])
            if greatest.get(self._key(row), version) > version:
                day = by_day[row["publish_time"].date()]
                day["missing"] -= 1
                day["outcome_fingerprint"] += fingerprints.of_message(
                    row["message_id"], identity.to_micros(row["publish_time"])
                )

    def _key(self, row: dict[str, Any]) -> str:
        path = self._topic.keys.idempotency_key
        if row["idempotency_key"] or path is None:
            return row["idempotency_key"] or ""
        return rederive.texts_by_path(row["json_payload"]).get(payload_path.segments(path), "")

    def _values(self, sample: int) -> Check:
        paths, rows = self._paths(), self._ask("standardized_sample", limit=sample)
        wrong = [
            f"{row['message_id']}: {path}"
            for row in rows
            for path in rederive.differences(rederive.texts_by_path(row["json_payload"]), _stored(row, paths))
        ]
        statement = f"{len(rows)} messages derived from RAW once more give the same values"
        return Check(self._topic.topic, statement, not wrong, "; ".join(wrong[:OFFENDERS]))

    def _paths(self) -> dict[str, tuple[str, ...]]:
        fields = self._standardized_table.schema().fields if self._standardized_table else ()
        return {
            field.name: payload_path.segments(field.doc)
            for field in fields
            if field.doc and field.name not in _ENVELOPE and field.name != "_overflow"
        }


def _stored(row: dict[str, Any], paths: dict[str, tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    overflow = json.loads(row.get("_overflow") or "{}")
    return {path: row[name] for name, path in paths.items() if row[name] is not None} | {
        payload_path.segments(text): value for text, value in overflow.items()
    }


def _prints_agree(day: dict[str, Any]) -> bool:
    return int(day["raw_fingerprint"]) == int(day["outcome_fingerprint"])
