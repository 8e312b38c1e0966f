"""Everything that can fail fails at once, and every message is still accounted for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lean_ops.aws import error_tables, ingestion, recovery
from lean_ops.aws.catalog import open_catalog
from tests.e2e.stack import running

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(3600)]

COUNT = 20_000
# Every fifth process dies: that blurs the counts far beyond what a day in production does.
TOLERANCE = 0.05


def envelope(number: int) -> dict[str, Any]:
    moment = f"2026-11-17T10:{number // 600 % 60:02d}:00.{number:06d}Z"
    return {"message_id": f"m{number}", "publish_time": moment, "payload": json.dumps({"n": number})}


def test_no_message_is_missing_after_crashes_refusals_throttling_and_duplicates(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 (no secret)
    sent = [envelope(number) for number in range(COUNT)]
    doubled = sent + chance.sample(sent, COUNT // 20)
    chance.shuffle(doubled)
    broken = [f"broken {number}" for number in range(50)]
    trouble = ("crash_share=0.2", "crash_after_seconds=0.5", "throttled_share=0.05")
    with running(tmp_path, "local", *trouble) as stack:
        stack.trouble(refused_share=0.05)
        stack.send("orders", doubled + broken)
        stack.command("local", "drain", "--timeout", "600")
        catalog = open_catalog(stack.runtime.environment, stack.runtime.home)
        in_raw = {
            row["id"] for row in stack.sql("select message_id as id from iceberg_raw_db.orders_staging")
        }
        failed = {
            standing.identity.message_id
            for table in (error_tables.dlq_errors(catalog), error_tables.firehose_errors(catalog))
            for standing in table.standings("orders")
        }
        assert {each["message_id"] for each in sent} <= in_raw | failed
        query = "select count(distinct record_id) as n from iceberg_raw_db.dlq_errors where error_code = 'NOT_JSON'"
        assert stack.sql(query) == [{"n": len(broken)}]
        books = ingestion.books(stack.runtime)
        counted = recovery.pre_raw_balance(catalog, books, "orders")
        assert counted.balanced, counted
        asked = recovery.pre_raw_balance(catalog, books, "orders", received=len(doubled) + len(broken))
        assert asked.balanced, asked
        assert counted.certain(TOLERANCE), counted
        assert asked.certain(TOLERANCE), asked
        closing = ("dlq", "close", "--topic", "orders", "--code", "NOT_JSON", "--reason", "broken on purpose")
        stack.command(*closing)
        after = recovery.pre_raw_balance(catalog, books, "orders")
        assert (after.closed, after.open_dlq) == (len(broken), counted.open_dlq - len(broken))
        assert after.difference == counted.difference
        log = (tmp_path / "logs" / "lambda.log").read_text()
    assert log.count("sqs_processor crashed") >= 5, "the test has to be what it says"
