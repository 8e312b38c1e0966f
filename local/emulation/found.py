"""What the tables of a topic hold, read by plain SQL: nothing here knows what should be in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lean_ops import naming, ops_tables, tables
from lean_ops.aws.sql import query
from lean_ops.errors import LeanOpsError, NotFoundError
from lean_ops.runtime import Runtime
from local.emulation.payloads import INSTANTS

Identity = tuple[str, int]
_IDENTITY = ("message_id", "epoch_us(publish_time)")
_VERSIONS = (
    "idempotency_key",
    *_IDENTITY,
    "period_reference",
    "first_message_id",
    "epoch_us(first_seen_ts)",
    "first_period_reference",
)


@dataclass(frozen=True)
class Found:
    """One topic's tables; a table that does not exist holds nothing."""

    runtime: Runtime
    topic: str

    def raw(self) -> list[tuple[Identity, str]]:
        return _by_identity(self._rows(naming.raw_table(self.topic), *_IDENTITY, "json_payload"))

    def standardized(self) -> list[tuple[Identity, tuple[str, str]]]:
        table = naming.standardized_table(self.topic)
        return _by_identity(self._rows(table, *_IDENTITY, "idempotency_key", "period_reference"))

    def drifted(self, column: str) -> list[tuple[Identity, str]]:
        """The values of one column of Standardized; none when there is no such column."""
        table = naming.standardized_table(self.topic)
        try:
            return _by_identity(self._rows(table, *_IDENTITY, column, rest=f"where {column} is not null"))
        except LeanOpsError:
            return []

    def parse_errors(self) -> list[tuple[Identity, str]]:
        return _by_identity(self._open(tables.PARSE_ERRORS.identifier, *_IDENTITY, "error_code"))

    def errors(self) -> list[tuple[Identity, tuple[str, str]]]:
        return _by_identity(self._open(tables.ERRORS.identifier, *_IDENTITY, "error_code", "column_name"))

    def dead_letters(self) -> list[tuple[str, str]]:
        """Body and code."""
        return [(row[0], row[1]) for row in self._open(tables.DLQ_ERRORS.identifier, "body", "error_code")]

    def curated(self, columns: Iterable[str]) -> list[tuple[Any, ...]]:
        """Key, versions and periods of every row, then the values of these columns as texts."""
        texts = (f"cast({_comparable(column)} as varchar)" for column in columns)
        return self._rows(naming.curated_table(self.topic), *_VERSIONS, *texts)

    def drift(self) -> set[tuple[str, str]]:
        """Column and action of everything that the drift log says of Standardized."""
        of_topic = f"where topic_name = '{self.topic}' and source_layer = 'standardized'"
        rows = self._rows(ops_tables.DRIFT_LOG.identifier, "column_name", "action", rest=of_topic)
        return {(row[0], row[1]) for row in rows}

    def _open(self, table: tuple[str, str], *columns: str) -> list[tuple[Any, ...]]:
        """The records whose latest attempt is open."""
        latest = "row_number() over (partition by record_id order by attempt desc) = 1"
        rest = f"where topic_name = '{self.topic}' qualify {latest} and status = 'open'"
        return self._rows(table, *columns, rest=rest)

    def _rows(self, table: tuple[str, str], *columns: str, rest: str = "") -> list[tuple[Any, ...]]:
        statement = f"select {', '.join(columns)} from {'.'.join(table)} {rest}"  # noqa: S608 (our own names)
        try:
            return query(self.runtime, statement).rows
        except NotFoundError:
            return []


def _by_identity(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Identity, Any]]:
    return [((row[0], row[1]), row[2] if len(row) == 3 else row[2:]) for row in rows]


def _comparable(column: str) -> str:
    return f"epoch_us({column})" if column in INSTANTS else column
