"""Before a contract is deployed, stored records say what it would do to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lean_ops import tables
from lean_ops.contracts.effect import BrokenRule, ContractEffect, EffectArguments
from spark_jobs.contract_effect import run
from tests.repositories import column, contract
from tests.spark.oracle import Message
from tests.spark.world import World

pytestmark = pytest.mark.spark

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
SINCE = NOW - timedelta(days=7)


def message(number: int, payload: str, published: datetime = NOW) -> Message:
    micros = round(published.timestamp() * 1_000_000) + number
    return Message(f"m{number}", micros, 1, f"key-{number}", payload)


def effect(world: World, new: str, active: str | None) -> ContractEffect:
    arguments = EffectArguments(topic=world.topic, contract=new, active=active, since=SINCE)
    return run(world.lake.spark, arguments)


def of(world: World, *columns: dict[str, Any]) -> str:
    return contract(*columns, table_name=world.name)


def leave_error(world: World, failed: Message, attempt: int, status: str) -> None:
    errors = world.lake.catalog.load_table(tables.ERRORS.identifier)
    row = {
        "record_id": f"{world.name}/curate/{failed.message_id}",
        "topic_name": world.name,
        "message_id": failed.message_id,
        "publish_time": failed.published,
        "attempt": attempt,
        "status": status,
    }
    errors.append(pa.Table.from_pylist([row], schema=errors.schema().as_arrow()))


def test_what_would_newly_fail_and_what_would_heal_is_counted(world: World) -> None:
    long_ago = NOW - timedelta(days=90)
    old = [message(10, '{"n": "x"}', long_ago), message(11, "{}", long_ago), message(12, "{}", long_ago)]
    stored = [
        message(0, '{"n": 1, "note": "a"}'),
        message(1, '{"n": 2}'),
        message(2, '{"n": 3000000000, "note": "b"}'),
        message(3, '{"n": "x"}'),
        message(4, "no JSON"),
        message(0, '{"n": 1, "note": "a"}'),
    ]
    world.append([*stored, *old])
    for each in (*old, stored[3]):
        leave_error(world, each, 1, "open")
    leave_error(world, old[2], 2, "resolved")
    active = of(world, column("n", "bigint"))
    stricter = of(world, column("n", "int"), column("note", cde=True))
    assert effect(world, stricter, active) == ContractEffect(
        records=4,
        unreadable=1,
        newly_failing=2,
        healed=0,
        open_errors=3,
        open_errors_healed=0,
        broken_rules=(
            BrokenRule(code="CDE_MISSING", column="note", rule="cde", records=1),
            BrokenRule(code="WRONG_TYPE", column="n", rule="int", records=1),
        ),
    )
    looser = of(world, column("n", "string"))
    assert effect(world, looser, active) == ContractEffect(
        records=4, unreadable=1, newly_failing=0, healed=1, open_errors=3, open_errors_healed=3
    )
    first = effect(world, stricter, None)
    assert (first.newly_failing, first.healed) == (3, 0)
