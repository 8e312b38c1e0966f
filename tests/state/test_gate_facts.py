"""What the gates are told about a lake: nothing is new, RAW is ahead, a plan is open, a hop is behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lean_ops import tables
from lean_ops.aws import lake
from lean_ops.aws.checkpoints import Checkpoints
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.gate_facts import GateReader
from lean_ops.aws.leases import Leases
from lean_ops.aws.registry import Registry
from lean_ops.batch.batch_plan import Hop, SourceRange, Token, spec_sha256
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.spec import ContractSpec
from lean_ops.errors import DataFaultError
from lean_ops.naming import Names
from lean_ops.tables import TableSpec
from tests.batch_plans import plan_of

CONTRACT = ContractSpec(
    table_name="orders",
    version="1.0",
    envelope_columns=("message_id", "idempotency_key", "publish_time", "period_reference"),
    payload_columns=(),
)
ORDERS = TopicSpec(topic="orders", owner="sales", description="Orders.")
VALUES: dict[str, Any] = {"string": "x", "timestamptz": datetime(2026, 11, 18, tzinfo=UTC), "long": 1}


@pytest.fixture
def leases(dynamodb: Any, names: Names) -> Leases:
    return Leases(dynamodb, names)


@pytest.fixture
def checkpoints(dynamodb: Any, names: Names, leases: Leases) -> Checkpoints:
    return Checkpoints(dynamodb, names, leases)


@pytest.fixture
def reader(catalog: Catalog, dynamodb: Any, names: Names, checkpoints: Checkpoints) -> GateReader:
    return GateReader(catalog, Registry(dynamodb, names), checkpoints)


def append(catalog: Catalog, spec: TableSpec, token: Token | None = None) -> Table:
    """One row, as Firehose (without a token) or a batch would append it."""
    table = ensure_table(catalog, spec)
    row = {column.name: VALUES[column.type] for column in spec.columns}
    table.append(
        pa.Table.from_pylist([row], schema=table.schema().as_arrow()), token.summary() if token else {}
    )
    return table


def everything_of(source: Table, hop: Hop) -> Token:
    return Token(
        batch_id=f"{hop}-orders-1-2",
        start_snapshot=None,
        end_snapshot=lake.head(source),
        last_day=None,
        reason="first_read",
    )


def test_a_topic_without_tables_has_nothing_to_do(reader: GateReader) -> None:
    facts = reader.facts(ORDERS)
    assert facts.entry is None
    assert facts.standardize.waiting == ""
    assert facts.curate is None


def test_a_created_table_without_rows_is_no_news(reader: GateReader, catalog: Catalog) -> None:
    ensure_table(catalog, tables.raw("orders"))
    assert reader.facts(ORDERS).standardize.waiting == ""


def test_raw_is_ahead_until_a_batch_has_read_it(reader: GateReader, catalog: Catalog) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    raw = append(catalog, tables.raw("orders"))
    waiting = reader.facts(ORDERS).standardize
    assert waiting.waiting
    assert waiting.waiting_since is not None
    assert before < waiting.waiting_since < datetime.now(UTC)
    append(catalog, tables.standardized("orders"), everything_of(raw, "standardize"))
    done = reader.facts(ORDERS).standardize
    assert (done.waiting, done.waiting_since) == ("", None)
    append(catalog, tables.raw("orders"))
    assert reader.facts(ORDERS).standardize.waiting


def test_curated_is_behind_only_where_there_is_a_curated_table(reader: GateReader, catalog: Catalog) -> None:
    raw = append(catalog, tables.raw("orders"))
    standardized = append(catalog, tables.standardized("orders"), everything_of(raw, "standardize"))
    assert reader.facts(ORDERS).curate is None
    curated = tables.curated("orders", CONTRACT, "period")
    ensure_table(catalog, curated)
    behind = reader.facts(ORDERS).curate
    assert behind is not None
    assert behind.waiting
    append(catalog, curated, everything_of(standardized, "curate"))
    level = reader.facts(ORDERS).curate
    assert level is not None
    assert level.waiting == ""


def test_an_open_plan_is_work(
    reader: GateReader, catalog: Catalog, checkpoints: Checkpoints, leases: Leases
) -> None:
    raw = append(catalog, tables.raw("orders"))
    ensure_table(catalog, tables.standardized("orders"))
    plan = plan_of(SourceRange(start_snapshot=None, end_snapshot=lake.head(raw), reason="first_read"))
    checkpoints.open_plan(leases.acquire("orders", "me", 60, 0), plan)
    assert reader.facts(ORDERS).standardize.waiting == f"batch {plan.batch_id} is open"


def test_a_held_hop_says_so_until_contract_or_topic_file_have_changed(
    reader: GateReader, catalog: Catalog, leases: Leases
) -> None:
    raw = append(catalog, tables.raw("orders"))
    ensure_table(catalog, tables.standardized("orders"))
    source = SourceRange(start_snapshot=None, end_snapshot=lake.head(raw), reason="first_read")
    plan = plan_of(source).model_copy(update={"spec_sha256": spec_sha256(ORDERS)})
    claim = leases.acquire("orders", "me", 60, 0)
    registry, checkpoints, now = reader.registry, reader.checkpoints, datetime.now(UTC)
    registry.declare(ORDERS, now)
    registry.activate(claim, "1.0", plan.contract_sha256, ORDERS.keys, now)
    checkpoints.open_plan(claim, plan)
    checkpoints.hold(claim, plan, DataFaultError("40 of 100 records lack their key"), now)
    held = reader.facts(ORDERS).standardize.held
    assert "40 of 100 records lack their key" in held
    assert f"lean-ops batch accept {plan.batch_id}" in held
    assert not reader.facts(ORDERS.model_copy(update={"owner": "logistics"})).standardize.held
    registry.activate(claim, "1.1", "c" * 64, ORDERS.keys, now)
    assert not reader.facts(ORDERS).standardize.held
