"""`verify` proves the second line of the books, and that each key has one row, from what is in the tables."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from lean_ops import naming, tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.curated_verification import CuratedVerifier, Derivation
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.verification import Verification
from lean_ops.batch.batch_plan import Token
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.contracts.spec import ContractSpec
from lean_ops.runtime import Runtime

Row = dict[str, Any]

START = datetime(2026, 1, 31, 23, 59, 59, 999_998, tzinfo=UTC)
KEY = b"secret"
TOPIC = TopicSpec(
    topic="orders", owner="platform", description="Orders.", keys=KeysSpec(idempotency_key="key")
)
CONTRACT = ContractSpec.model_validate(
    {
        "table_name": "orders",
        "version": "1.0",
        "envelope_columns": ["idempotency_key", "message_id", "publish_time", "period_reference"],
        "payload_columns": [
            {"name": "amount", "type": "decimal(10,2)"},
            {"name": "rate", "type": "double"},
            {"name": "paid", "type": "boolean"},
            {"name": "due", "type": "date"},
            {"name": "at", "type": "timestamp"},
            {"name": "seen", "type": "timestamp", "format": "epoch_millis"},
            {"name": "email", "type": "string", "pii": True},
            {"name": "unit", "type": "string", "default": "kg"},
            {"name": "gone", "type": "string"},
        ],
    }
)
PAYLOAD = (
    '{"key": "k", "amount": 1E1, "rate": 0.1, "paid": true, "due": "2024-02-29", "at": "2026-01-01T01:00:00+01:00", '
    '"seen": 1767225600123, "email": "ada", "gone": null}'
)
VALUES = {
    "amount": Decimal("10.00"),
    "rate": 0.1,
    "paid": True,
    "due": date(2024, 2, 29),
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "seen": datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC),
    "email": hmac.new(KEY, b"ada", hashlib.sha256).hexdigest(),
    "unit": "kg",
}


@pytest.fixture
def lake(runtime: Runtime) -> Catalog:
    catalog = open_catalog(runtime.environment, runtime.home)
    topic = (
        tables.raw("orders"),
        tables.standardized("orders"),
        tables.curated("orders", CONTRACT, "period"),
    )
    for spec in (*topic, tables.ERRORS):
        ensure_table(catalog, spec)
    return catalog


def version(number: int, key: str | None = "k") -> Row:
    """A standardized message; the first two are of one day, the others of the next."""
    return {
        "message_id": f"m{number}",
        "topic_name": "orders",
        "publish_time": START + timedelta(microseconds=number),
        "ingestion_ts": number,
        "idempotency_key": key,
        "period_reference": f"20{10 + number}-01",
    }


def held(last: Row, first: Row | None = None) -> Row:
    first = first or last
    return {
        "_key_hash": 0,
        **{
            name: last[name] for name in ("idempotency_key", "message_id", "publish_time", "period_reference")
        },
        "first_message_id": first["message_id"],
        "first_period_reference": first["period_reference"],
        "first_seen_ts": first["publish_time"],
        "last_updated_ts": last["publish_time"],
        "contract_version": "1.0",
        **VALUES,
    }


def attempt(row: Row, number: int = 1, status: str = "open") -> Row:
    identity = {name: row[name] for name in ("message_id", "topic_name", "publish_time")}
    return identity | {"record_id": f"orders/curate/{row['message_id']}", "attempt": number, "status": status}


def append(catalog: Catalog, identifier: tuple[str, str], rows: list[Row], **summary: str) -> int:
    table = catalog.load_table(identifier)
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()), snapshot_properties=summary)
    return catalog.load_table(identifier).metadata.current_snapshot_id or 0


def publish(
    catalog: Catalog, messages: list[Row], rows: list[Row], errors: list[Row], last_day: date | None = None
) -> None:
    """What a batch over these messages would leave behind, if these were the rows it wrote."""
    end = append(catalog, naming.standardized_table("orders"), messages)
    append(catalog, tables.ERRORS.identifier, errors)
    token = Token(batch_id="b", start_snapshot=None, end_snapshot=end, last_day=last_day, reason="first_read")
    append(catalog, naming.curated_table("orders"), rows, **token.summary())


def verify(runtime: Runtime, derivation: Derivation | None = None) -> Verification:
    return CuratedVerifier(runtime, TOPIC).verify(derivation)


def failed(result: Verification) -> str:
    return "; ".join(check.detail for check in result.checks if not check.passed)


# m0 fails and heals, m1 and m2 are versions of k, m3 is a correction of it that fails, m4 has no key.
MESSAGES = [version(0), version(1), version(2), version(3), version(4, key=None)]
ROWS = [held(MESSAGES[2], MESSAGES[0])]
ERRORS = [
    attempt(MESSAGES[0]),
    attempt(MESSAGES[0], 2, "resolved"),
    attempt(MESSAGES[3]),
    attempt(MESSAGES[4]),
]


def test_books_that_balance_pass_day_by_day(runtime: Runtime, lake: Catalog) -> None:
    publish(lake, MESSAGES, ROWS, [*ERRORS, attempt(version(9))])
    result = verify(runtime)
    assert (failed(result), len(result.checks)) == ("", 4)
    counted = [
        [day[name] for name in ("standardized", "held", "superseded", "open_errors")] for day in result.days
    ]
    assert counted == [[2, 0, 2, 0], [3, 1, 0, 2]]


def test_whatever_is_lost_doubled_invented_or_swapped_is_named(runtime: Runtime, lake: Catalog) -> None:
    """One key for each kind of damage, all in one table."""
    first, second, row = {}, {}, {}
    for number, key in enumerate(("lost", "old", "late", "stale", "twice", "failed", "moved", "sound")):
        first[key], second[key] = version(2 * number, key), version(2 * number + 1, key)
        row[key] = held(second[key], first[key])
    stranger = held(version(90, "stranger"))
    errors = [attempt(second["failed"]), attempt(first["moved"]), attempt(first["moved"], 2, "resolved")]
    messages = [*first.values(), *second.values(), version(91, key=None)]
    rows = [
        held(first["old"]),
        held(second["late"]),
        row["stale"] | {"first_seen_ts": START},
        row["twice"],
        row["twice"],
        row["failed"],
        row["moved"] | {"period_reference": "2020-01"},
        row["sound"],
        stranger,
    ]
    publish(lake, messages, rows, errors)
    found = failed(verify(runtime))
    assert [found.count(f": {each['message_id']} of") for each in first.values()] == [2, 0, 0, 0, 0, 0, 0, 0]
    ids = {name: second[name]["message_id"] for name in second}
    for fault in (
        f"missing: {ids['lost']} of",
        f"missing: {ids['old']} of",
        "missing: m91 of",
        f"doubled: {ids['twice']} of",
        f"doubled: {ids['failed']} of",
        "foreign: m90 of",
        "twice has 2 rows",
        *(f"wrong versions: {key}" for key in ("old", "late", "stale", "failed", "moved", "stranger")),
    ):
        assert fault in found
    assert "sound" not in found
    assert ids["sound"] not in {part.split(" ")[1] for part in found.split("; ") if " of " in part}


def test_what_was_resolved_and_is_not_there_is_missing(runtime: Runtime, lake: Catalog) -> None:
    publish(lake, MESSAGES, ROWS, [*ERRORS, attempt(MESSAGES[3], 2, "resolved")])
    assert "missing: m3 of" in failed(verify(runtime))


def test_what_came_after_the_newest_batch_is_waiting_not_missing(runtime: Runtime, lake: Catalog) -> None:
    publish(lake, MESSAGES, ROWS, ERRORS)
    append(lake, naming.standardized_table("orders"), [version(5), version(6)])
    result = verify(runtime)
    assert (result.waiting, failed(result)) == (2, "")


def test_of_a_range_that_is_read_by_days_only_the_days_that_are_done_can_balance(
    runtime: Runtime, lake: Catalog
) -> None:
    publish(lake, MESSAGES, [held(MESSAGES[1], MESSAGES[0])], ERRORS[:2], last_day=START.date())
    assert failed(verify(runtime)) == ""


def test_a_topic_without_a_curated_table_has_only_waiting_rows(runtime: Runtime) -> None:
    catalog = open_catalog(runtime.environment, runtime.home)
    ensure_table(catalog, tables.standardized("orders"))
    append(catalog, naming.standardized_table("orders"), MESSAGES)
    result = verify(runtime)
    assert (result.waiting, result.days, result.checks) == (5, [], [])


def deep(pii_key: bytes | None = KEY) -> Derivation:
    return Derivation(10, {"1.0": CONTRACT}.__getitem__, pii_key)


def load(lake: Catalog, **changes: Any) -> None:
    message = version(1)
    arrivals = [
        {name: message[name] for name in ("message_id", "topic_name", "publish_time")}
        | {"ingestion_ts": order, "idempotency_key": None, "json_payload": payload}
        for order, payload in ((1, PAYLOAD), (2, '{"key": "other"}'))
    ]
    append(lake, naming.raw_table("orders"), arrivals)
    publish(lake, [message], [held(message) | changes], [])


def test_values_derived_from_raw_once_more_are_the_same(runtime: Runtime, lake: Catalog) -> None:
    load(lake)
    assert [failed(verify(runtime, deep(key))) for key in (KEY, None)] == ["", ""]


CHANGED = {
    "amount": Decimal("10.01"),
    "rate": 0.2,
    "paid": False,
    "due": date(2024, 3, 1),
    "at": datetime(2026, 1, 1, 1, tzinfo=UTC),
    "seen": datetime(2026, 1, 1, tzinfo=UTC),
    "email": "0" * 64,
    "unit": None,
    "gone": "null",
}


def test_changed_values_are_found_by_deriving_them_once_more(runtime: Runtime, lake: Catalog) -> None:
    load(lake, **CHANGED)
    assert failed(verify(runtime)) == ""
    assert failed(verify(runtime, deep())) == "; ".join(f"k: {column}" for column in CHANGED)


def test_personal_data_in_clear_is_found_without_the_key(runtime: Runtime, lake: Catalog) -> None:
    load(lake, email="ada")
    assert failed(verify(runtime, deep(None))) == "k: email"


def test_a_row_that_raw_knows_nothing_of_or_knows_by_another_key_is_found(
    runtime: Runtime, lake: Catalog
) -> None:
    load(lake, idempotency_key="q")
    assert "q: idempotency_key" in failed(verify(runtime, deep()))
    append(lake, naming.curated_table("orders"), [held(version(8, "r"))])
    assert "r: RAW has no message m8" in failed(verify(runtime, deep()))
