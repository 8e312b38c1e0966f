"""Recomputes the second line of the books from the tables alone: Standardized against Curated and its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.types import NestedField, TimestamptzType

from lean_ops import fingerprints, named_sql, naming, tables
from lean_ops.aws import lake
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.sql import query
from lean_ops.aws.verification import OFFENDERS, Check, Verification
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.rederive import differences
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload import payload_path
from lean_ops.payload.rederive import texts_by_path
from lean_ops.runtime import Runtime

# Instants as numbers: engines print times differently.
_MICROS: dict[fingerprints.Dialect, str] = {
    "duckdb": "epoch_us({})",
    "athena": "date_diff('microsecond', from_iso8601_timestamp('1970-01-01T00:00:00Z'), {})",
}


@dataclass(frozen=True)
class Derivation:
    """What deriving values once more needs: contracts by their version, and the key of personal data if known."""

    sample: int
    contract: Callable[[str], ContractSpec]
    pii_key: bytes | None = None


class CuratedVerifier:
    """One topic's Curated table, against Standardized as its newest batch had read it."""

    def __init__(self, runtime: Runtime, topic: TopicSpec) -> None:
        self._runtime, self._topic = runtime, topic
        self._dialect: fingerprints.Dialect = "duckdb" if runtime.environment.emulated else "athena"
        self._standardized = naming.standardized_table(topic.topic)
        self._curated = naming.curated_table(topic.topic)
        catalog = open_catalog(runtime.environment, runtime.home)
        self._standardized_table = _table(catalog, self._standardized)
        self._curated_table = _table(catalog, self._curated)
        self._token = lake.newest_token(self._curated_table) if self._curated_table else None

    def verify(self, derivation: Derivation | None = None) -> Verification:
        """The books and the rules of the rows; with a derivation also values, derived from RAW once more."""
        waiting = self._waiting()
        if self._token is None:
            return Verification(self._topic.topic, [], waiting, [])
        days = self._ask("curated_days")
        checks = [self._balanced(days), self._unique(days), self._one_row_per_key()]
        if self._token.last_day is None:
            # While a range is being read by days, rows may hold versions of days that are still to come.
            checks.append(self._versions())
        if derivation is not None:
            checks.append(self._values(derivation))
        return Verification(self._topic.topic, days, waiting, checks)

    def _ask(self, template: str, **values: object) -> list[dict[str, Any]]:
        last_day = self._token.last_day if self._token else None
        statement = named_sql.render(
            template,
            raw=named_sql.quoted(naming.raw_table(self._topic.topic)),
            standardized=named_sql.quoted(self._standardized),
            curated=named_sql.quoted(self._curated),
            errors=named_sql.quoted(tables.ERRORS.identifier),
            topic=self._topic.topic,
            last_day=last_day + timedelta(days=1) if last_day else None,
            fingerprint=fingerprints.sql(self._dialect),
            **values,
        )
        pins = {self._standardized: self._token.end_snapshot} if self._token else {}
        return query(self._runtime, statement, pins).records()

    def _waiting(self) -> int:
        if self._standardized_table is None:
            return 0
        snapshots = lake.ancestry(self._standardized_table)
        ids = [snapshot.snapshot_id for snapshot in snapshots]
        end = self._token.end_snapshot if self._token else None
        after = ids.index(end) + 1 if end in ids else 0
        return sum(snapshot.news.records for snapshot in snapshots[after:])

    def _balanced(self, days: list[dict[str, Any]]) -> Check:
        statement = "every standardized message is in Curated, superseded there, or an open error"
        off = [
            day
            for day in days
            if day["missing"]
            or day["foreign_rows"]
            or int(day["source_fingerprint"]) != int(day["outcome_fingerprint"])
        ]
        return Check(self._topic.topic, statement, not off, self._named() if off else "")

    def _unique(self, days: list[dict[str, Any]]) -> Check:
        statement = "no standardized message has two outcomes"
        off = any(day["doubled"] for day in days)
        return Check(self._topic.topic, statement, not off, self._named() if off else "")

    def _named(self) -> str:
        rows = self._ask("curated_offenders", limit=OFFENDERS)
        return "; ".join(f"{row['fault']}: {row['message_id']} of {row['publish_time']}" for row in rows)

    def _one_row_per_key(self) -> Check:
        found = self._ask("curated_doubled_keys", limit=OFFENDERS)
        detail = "; ".join(f"{row['idempotency_key']} has {row['copies']} rows" for row in found)
        return Check(self._topic.topic, "every key has one row", not found, detail)

    def _versions(self) -> Check:
        found = self._ask("curated_versions", limit=OFFENDERS)
        statement = "every row is the greatest of its key's versions, and begins with the least"
        detail = "; ".join(f"wrong versions: {row['idempotency_key']}" for row in found)
        return Check(self._topic.topic, statement, not found, detail)

    def _values(self, derivation: Derivation) -> Check:
        rows = self._ask("curated_sample", limit=derivation.sample, columns=self._as_texts())
        contracts = {
            version: derivation.contract(version) for version in {r["_contract_version"] for r in rows}
        }
        wrong = [
            f"{row['_idempotency_key']}: {fault}"
            for row in rows
            for fault in self._faults(row, contracts[row["_contract_version"]], derivation.pii_key)
        ]
        statement = f"{len(rows)} rows derived from RAW once more give the same values"
        return Check(self._topic.topic, statement, not wrong, "; ".join(wrong[:OFFENDERS]))

    def _faults(self, row: dict[str, Any], contract: ContractSpec, pii_key: bytes | None) -> list[str]:
        if row["_json_payload"] is None:
            return [f"RAW has no message {row['_message_id']}"]
        texts = texts_by_path(row["_json_payload"])
        path = self._topic.keys.idempotency_key
        key = row["_raw_key"] or (texts.get(payload_path.segments(path)) if path else None)
        wrong_key = ["idempotency_key"] if key != row["_idempotency_key"] else []
        return [*wrong_key, *differences(contract, texts, row, pii_key)]

    def _as_texts(self) -> list[tuple[str, str]]:
        """Every column of the table as text in this dialect."""
        fields = self._curated_table.schema().fields if self._curated_table else ()
        return [(field.name, f"cast({self._comparable(field)} as varchar)") for field in fields]

    def _comparable(self, field: NestedField) -> str:
        name = f'sample."{field.name}"'
        return _MICROS[self._dialect].format(name) if isinstance(field.field_type, TimestamptzType) else name


def _table(catalog: Catalog, identifier: tuple[str, str]) -> Table | None:
    try:
        return catalog.load_table(identifier)
    except NoSuchTableError:
        return None
