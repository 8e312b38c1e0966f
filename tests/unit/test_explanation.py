"""What became of a message follows from what the tables hold about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lean_ops.batch.explanation import Facts, Found, explain

T = datetime(2026, 1, 1, tzinfo=UTC)
RAW = Found({"ingestion_ts": 1_767_225_601_000, "idempotency_key": None}, 1, T)
ROW = Found(
    {"idempotency_key": "k", "period_reference": "2026-01", "publish_time": T}, 2, T + timedelta(hours=1), "b"
)


def held(hours: int, message_id: str = "m") -> Found:
    at = T + timedelta(hours=hours)
    return Found({"publish_time": at, "message_id": message_id}, 3, T + timedelta(hours=2), "c")


def attempt(status: str, number: int = 1) -> Found:
    row = {"attempt": number, "status": status, "error_code": "CODE", "detail": "why", "batch_id": "b"}
    more = {"detected_at": T + timedelta(days=number), "column_name": "amount", "contract_version": "1.0"}
    return Found(row | more, 4)


OPEN, HEALED = [attempt("open")], [attempt("open"), attempt("resolved", 2)]


@pytest.mark.parametrize(
    ("known", "outcome", "why"),
    [
        ({"standardized": ROW, "curated": held(0)}, "delivered", "the current version"),
        ({"standardized": ROW, "curated": held(1, "n")}, "superseded", "n of 2026-01-01 01:00:00Z"),
        ({"standardized": ROW, "curated": held(0, "n")}, "superseded", "n of 2026-01-01 00:00:00Z"),
        ({"standardized": ROW, "curated": held(-1)}, "missing", "verify"),
        ({"standardized": ROW}, "missing", "verify"),
        ({"standardized": ROW, "unread_by": "curate"}, "waiting", "curate has not read"),
        ({"standardized": ROW, "attempts": {"errors": OPEN}}, "open_error", "CODE in amount (attempt 1, contract 1.0)"),
        ({"standardized": ROW, "attempts": {"errors": OPEN}, "curated": held(1)}, "open_error", "CODE in amount"),
        ({"standardized": ROW, "attempts": {"errors": HEALED}, "curated": held(0)}, "delivered", "current"),
        ({"attempts": {"parse_errors": OPEN}}, "parse_error", "CODE: why"),
        ({"unread_by": "standardize"}, "waiting", "standardize has not read"),
        ({}, "missing", "verify"),
        ({"raw": [], "attempts": {"dlq_errors": OPEN}}, "dead_letter", "CODE"),
        ({"raw": [], "attempts": {"firehose_errors": OPEN}}, "undelivered", "CODE"),
        ({"raw": [], "attempts": {"dlq_errors": HEALED}}, "waiting", "replayed"),
        ({"standardized": ROW, "curated": held(0), "raw": [RAW, RAW]}, "delivered", "arrived 2 times"),
    ],
)  # fmt: skip
def test_outcomes(known: dict[str, Any], outcome: str, why: str) -> None:
    explanation = explain(
        Facts(**{"topic": "t", "message_id": "m", "publish_time": T, "raw": [RAW], **known})
    )
    assert explanation.outcome == outcome
    assert why in explanation.why


def test_all_violations_of_an_open_error_are_told() -> None:
    row = {
        **attempt("open").row,
        "violations": '[{"code": "A", "column": "x"}, {"code": "B", "column": "y"}]',
    }
    explanation = explain(Facts("t", "m", T, [RAW], ROW, attempts={"errors": [Found(row)]}))
    assert explanation.why.startswith("A in x, B in y (attempt 1")


def test_the_timeline_has_every_station_in_the_order_of_time_with_batch_and_snapshot() -> None:
    facts = Facts("t", "m", T, [RAW], ROW, held(0), {"errors": HEALED})
    stations = [(event.layer, event.batch_id, event.snapshot) for event in explain(facts).timeline]
    assert stations == [
        ("source", None, None),
        ("raw", None, 1),
        ("standardized", "b", 2),
        ("curated", "c", 3),
        ("errors", "b", 4),
        ("errors", "b", 4),
    ]
