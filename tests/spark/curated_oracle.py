"""The Curated table and its errors a second time, in plain Python: nothing is shared with the jobs.

It is shown Standardized rows step by step, each step under the contract that was in force, with replays between
them. What it remembers is only the set of valid versions and the set of records that failed: whatever it answers
is a function of those, so no order and no cut can matter.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from tests.spark.casting_oracle import NotOfTypeError, Value, cast
from tests.spark.oracle import Identity, Row

MASK = "***"


class Violation(NamedTuple):
    """One rule that a record breaks; `value` only where there was a text to complain about."""

    code: str
    column: str
    value: str | None = None


class Version(NamedTuple):
    """A valid version of a key, as it was validated."""

    publish_time: int
    message_id: str
    period_reference: str
    contract_version: str
    values: dict[str, Value]


class CuratedRow(NamedTuple):
    """A row of Curated besides its key; times in microseconds. Columns that hold NULL are left out of `values`."""

    message_id: str
    publish_time: int
    period_reference: str
    first_message_id: str
    first_period_reference: str
    first_seen_ts: int
    last_updated_ts: int
    contract_version: str
    values: dict[str, Value]


class OpenError(NamedTuple):
    """The latest attempt at a record that is in no row."""

    attempt: int
    contract_version: str
    period_reference: str
    violations: tuple[Violation, ...]


class CuratedOracle:
    """What Curated and errors hold after the steps that it was shown."""

    def __init__(self, topic: str, pii_key: bytes) -> None:
        self._topic, self._pii_key = topic, pii_key
        self._seen: dict[Identity, Row] = {}
        self._versions: dict[str, list[Version]] = defaultdict(list)
        self.errors: dict[Identity, OpenError] = {}
        self.resolved: dict[Identity, int] = {}

    def take(self, rows: Mapping[Identity, Row], contract: ContractSpec) -> None:
        """The next Standardized rows, in one batch or in many; those that it knows already change nothing."""
        for identity in rows.keys() - self._seen.keys():
            self._seen[identity] = rows[identity]
            self._judge(identity, contract, attempt=1)

    def replay(self, contract: ContractSpec, code: str | None = None) -> None:
        """Validate the open errors once more, all or those whose first violation has a code."""
        for identity, error in list(self.errors.items()):
            if code in (None, error.violations[0].code):
                self._judge(identity, contract, error.attempt + 1)

    @property
    def rows(self) -> dict[str, CuratedRow]:
        """Curated, by key."""
        return {key: _row(versions) for key, versions in self._versions.items()}

    @property
    def superseded(self) -> int:
        """How many valid versions are not current."""
        return sum(len(versions) - 1 for versions in self._versions.values())

    def _judge(self, identity: Identity, contract: ContractSpec, attempt: int) -> None:
        row = self._seen[identity]
        violations, values = self._validate(row, contract)
        if violations:
            self.errors[identity] = OpenError(
                attempt, contract.version, row.period_reference, tuple(violations)
            )
            return
        if self.errors.pop(identity, None):
            self.resolved[identity] = attempt
        assert row.idempotency_key
        message_id, publish_time = identity
        version = Version(publish_time, message_id, row.period_reference, contract.version, values)
        self._versions[row.idempotency_key].append(version)

    def _validate(self, row: Row, contract: ContractSpec) -> tuple[list[Violation], dict[str, Value]]:
        envelope = {"ingestion_ts": row.ingestion_ts, "topic_name": self._topic}
        values: dict[str, Value] = {
            name: value for name, value in envelope.items() if name in contract.envelope_columns
        }
        violations = [] if row.idempotency_key else [Violation("MISSING_KEY", "idempotency_key")]
        for column in contract.payload_columns:
            text = row.leaves.get(column.payload_path)
            try:
                value = self._value(text, column)
            except _BreachError as breach:
                shown = MASK if column.pii and breach.value is not None else breach.value
                violations.append(Violation(breach.code, column.name, shown))
                continue
            if value is not None:
                values[column.name] = value
        return violations, values

    def _value(self, text: str | None, column: ColumnSpec) -> Value:
        if column.cde and (text is None or not text.strip()):
            raise _BreachError("CDE_MISSING", text)
        if text is None:
            text = column.default
        if text is None:
            if column.nullable is False:
                raise _BreachError("NOT_NULL", None)
            return None
        if column.pii:
            return hmac.new(self._pii_key, text.encode(), hashlib.sha256).hexdigest()
        try:
            return cast(text, column.type, column.format or "iso8601")
        except NotOfTypeError:
            raise _BreachError("WRONG_TYPE", text) from None


class _BreachError(Exception):
    def __init__(self, code: str, value: str | None) -> None:
        super().__init__(code)
        self.code, self.value = code, value


def _row(versions: list[Version]) -> CuratedRow:
    last = max(versions, key=lambda each: (each.publish_time, each.message_id))
    first = min(versions, key=lambda each: (each.publish_time, each.message_id))
    return CuratedRow(
        message_id=last.message_id,
        publish_time=last.publish_time,
        period_reference=last.period_reference,
        first_message_id=first.message_id,
        first_period_reference=first.period_reference,
        first_seen_ts=first.publish_time,
        last_updated_ts=last.publish_time,
        contract_version=last.contract_version,
        values=last.values,
    )
