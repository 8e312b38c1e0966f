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
from lean_ops.batch.batch_plan import SourceRange, Token
from lean_ops.contracts.spec import ContractSpec
from lean_ops.naming import Names
from lean_ops.tables import TableSpec
from tests.batch_plans import plan_of

CONTRACT = ContractSpec(
    table_name="orders",
    version="1.0",
    envelope_columns=("message_id", "idempotency_key", "publish_time", "period_reference"),
    payload_columns=(),
)
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


def everything_of(source: Table) -> Token:
    return Token(
        batch_id="b", start_snapshot=None, end_snapshot=lake.head(source), last_day=None, reason="first_read"
    )


def test_a_topic_without_tables_has_nothing_to_do(reader: GateReader) -> None:
    facts = reader.facts("orders")
    assert facts.entry is None
    assert facts.standardize.waiting == ""
    assert facts.curate is None


def test_a_created_table_without_rows_is_no_news(reader: GateReader, catalog: Catalog) -> None:
    ensure_table(catalog, tables.raw("orders"))
    assert reader.facts("orders").standardize.waiting == ""


def test_raw_is_ahead_until_a_batch_has_read_it(reader: GateReader, catalog: Catalog) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    raw = append(catalog, tables.raw("orders"))
    waiting = reader.facts("orders").standardize
    assert waiting.waiting
    assert waiting.waiting_since is not None
    assert before < waiting.waiting_since < datetime.now(UTC)
    append(catalog, tables.standardized("orders"), everything_of(raw))
    done = reader.facts("orders").standardize
    assert (done.waiting, done.waiting_since) == ("", None)
    append(catalog, tables.raw("orders"))
    assert reader.facts("orders").standardize.waiting


def test_curated_is_behind_only_where_there_is_a_curated_table(reader: GateReader, catalog: Catalog) -> None:
    raw = append(catalog, tables.raw("orders"))
    standardized = append(catalog, tables.standardized("orders"), everything_of(raw))
    assert reader.facts("orders").curate is None
    curated = tables.curated("orders", CONTRACT, "period")
    ensure_table(catalog, curated)
    behind = reader.facts("orders").curate
    assert behind is not None
    assert behind.waiting
    append(catalog, curated, everything_of(standardized))
    level = reader.facts("orders").curate
    assert level is not None
    assert level.waiting == ""


def test_an_open_plan_is_work(
    reader: GateReader, catalog: Catalog, checkpoints: Checkpoints, leases: Leases
) -> None:
    raw = append(catalog, tables.raw("orders"))
    ensure_table(catalog, tables.standardized("orders"))
    plan = plan_of(SourceRange(start_snapshot=None, end_snapshot=lake.head(raw), reason="first_read"))
    checkpoints.open_plan(leases.acquire("orders", "me", 60, 0), plan)
    assert reader.facts("orders").standardize.waiting == f"batch {plan.batch_id} is open"
