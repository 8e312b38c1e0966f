"""Columns that are older than the drift log are told once, however often it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lean_ops import tables
from lean_ops.aws.ddl import add_columns
from lean_ops.aws.drift_catch_up import catch_up
from lean_ops.naming import Names
from lean_ops.tables import Column
from tests.repositories import column
from tests.state.deploying import World, make_world, orders

OLD = (Column("event_userid", "string", doc="event.userId"), Column("amount", "string", doc="amount"))


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path) -> World:
    made = make_world(dynamodb, names, tmp_path)
    made.onboard()
    return made


def told(world: World) -> set[tuple[str, str, str]]:
    rows = world.history("drift_log")
    return {(row["source_layer"], row["action"], row["column_name"]) for row in rows}


def test_what_existed_before_the_log_is_told_once(world: World) -> None:
    add_columns(world.catalog, tables.standardized("orders"), OLD)
    ask = ["orders", "payments"]
    first = catch_up(world.catalog, world.ports.outbox, ask)
    assert {event.values["column_name"] for event in first} == {"event_userid", "amount"}
    assert catch_up(world.catalog, world.ports.outbox, ask) == [], "told, and on its way"
    assert told(world) == {("standardized", "ADDED", "event_userid"), ("standardized", "ADDED", "amount")}
    assert catch_up(world.catalog, world.ports.outbox, ask) == [], "told, and in the table"
    assert len(world.history("drift_log")) == 2


def test_a_run_that_lost_its_events_tells_the_same_again(world: World) -> None:
    add_columns(world.catalog, tables.standardized("orders"), OLD)
    first = catch_up(world.catalog, world.ports.outbox, ["orders"])
    world.ports.outbox.remove(first)
    assert catch_up(world.catalog, world.ports.outbox, ["orders"]) == first


def test_what_a_contract_told_is_not_told_again(world: World) -> None:
    world.deployed(orders("1.0", column("note")))
    assert catch_up(world.catalog, world.ports.outbox, ["orders"]) == []
    add_columns(world.catalog, tables.standardized("orders"), OLD[:1])
    (event,) = catch_up(world.catalog, world.ports.outbox, ["orders"])
    assert (event.values["column_name"], event.values["source_layer"]) == ("event_userid", "standardized")
