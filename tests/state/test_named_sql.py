"""The shipped queries and views answer from the tables, on the local lake as real views."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from jinja2 import UndefinedError
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType

from lean_ops import named_queries, named_sql, naming, ops_tables, tables, views
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.sql import columns_of, query, table_names
from lean_ops.errors import NotFoundError
from lean_ops.runtime import Runtime
from tests.state.test_curated_verification import (
    CONTRACT,
    ERRORS,
    MESSAGES,
    ROWS,
    append,
    attempt,
    publish,
    version,
)

NOW = datetime.now(UTC)


@pytest.fixture
def lake(runtime: Runtime) -> Catalog:
    catalog = open_catalog(runtime.environment, runtime.home)
    for spec in (
        tables.raw("orders"),
        tables.standardized("orders"),
        tables.curated("orders", CONTRACT, "period"),
        *tables.SHARED_TABLES,
        ops_tables.DRIFT_LOG,
    ):
        ensure_table(catalog, spec)
    return catalog


def ask(runtime: Runtime, name: named_queries.QueryName) -> list[dict[str, Any]]:
    return query(runtime, named_queries.statement(name, "orders")).records()


def arrivals(*numbers: int) -> list[dict[str, Any]]:
    rows = [version(number) | {"json_payload": "{}"} for number in numbers]
    return [{name: row[name] for name in row if name != "period_reference"} for row in rows]


def test_accountability_gives_every_layer_and_what_has_no_outcome_yet(
    runtime: Runtime, lake: Catalog
) -> None:
    append(lake, naming.raw_table("orders"), arrivals(0, 1, 2, 3, 4, 4, 5))
    append(lake, tables.PARSE_ERRORS.identifier, [attempt(version(5)) | {"json_payload": "{"}])
    publish(lake, MESSAGES, ROWS, ERRORS)
    found = {row["layer"]: (row["records"], row["unaccounted"]) for row in ask(runtime, "accountability")}
    assert found == {
        "raw rows": (7, None),
        "raw duplicates": (1, None),
        "raw messages": (6, 0),
        "parse errors": (1, None),
        "standardized": (5, 0),
        "curated": (1, None),
        "superseded": (2, None),
        "open errors": (2, None),
    }
    append(lake, naming.raw_table("orders"), arrivals(6, 7))
    append(lake, naming.standardized_table("orders"), [version(6)])
    found = {row["layer"]: row["unaccounted"] for row in ask(runtime, "accountability")}
    assert (found["raw messages"], found["standardized"]) == (1, 1)


def test_cross_period_lists_what_moved_the_longest_delay_first(runtime: Runtime, lake: Catalog) -> None:
    late = ROWS[0] | {"idempotency_key": "late", "last_updated_ts": datetime(2028, 7, 1, tzinfo=UTC)}
    moved = ROWS[0] | {"idempotency_key": "moved", "last_updated_ts": ROWS[0]["first_seen_ts"]}
    same = moved | {"idempotency_key": "same", "period_reference": moved["first_period_reference"]}
    append(lake, naming.curated_table("orders"), [same, moved, late])
    found = [(row["idempotency_key"], row["months_late"]) for row in ask(runtime, "cross_period")]
    assert found == [("late", 30), ("moved", 0)]


def test_drift_lists_the_changes_of_the_last_week(runtime: Runtime, lake: Catalog) -> None:
    rows = [
        {
            "event_id": name,
            "topic_name": topic,
            "detected_ts": NOW - timedelta(days=days),
            "column_name": name,
        }
        for name, topic, days in (("new", "orders", 1), ("old", "orders", 8), ("foreign", "payments", 1))
    ]
    append(lake, ops_tables.DRIFT_LOG.identifier, rows)
    assert [row["column_name"] for row in ask(runtime, "drift")] == ["new"]


def test_the_latest_view_holds_the_greatest_version_of_each_key_and_all_that_have_none(
    runtime: Runtime, lake: Catalog
) -> None:
    with lake.load_table(naming.standardized_table("orders")).update_schema() as update:
        update.add_column("select", StringType(), doc="select")
    rows = [
        version(number, key) | {"select": str(number)}
        for number, key in enumerate(["k", "k", "q", None, None])
    ]
    append(lake, naming.standardized_table("orders"), rows)
    found = query(runtime, 'select * from "iceberg_standardized_db"."orders_latest" order by message_id')
    assert [row["select"] for row in found.records()] == ["1", "2", "3", "4"]
    assert list(found.columns) == columns_of(lake, naming.standardized_table("orders"))


def test_all_errors_holds_the_latest_attempt_at_each_record_of_every_layer(
    runtime: Runtime, lake: Catalog
) -> None:
    for spec in tables.SHARED_TABLES:
        append(lake, spec.identifier, [attempt(MESSAGES[0]), attempt(MESSAGES[1])])
    append(lake, tables.ERRORS.identifier, [attempt(MESSAGES[0], 2, "resolved") | {"rule": "required"}])
    found = query(
        runtime,
        "select layer, status, count(*) as records, max(attempt) as attempt, max(rule) as rule "
        "from iceberg_curated_db.all_errors group by all order by all",
    )
    assert found.rows == [
        ("dlq_errors", "open", 2, 1, None),
        ("errors", "open", 1, 1, None),
        ("errors", "resolved", 1, 2, "required"),
        ("firehose_errors", "open", 2, 1, None),
        ("parse_errors", "open", 2, 1, None),
    ]


def test_a_view_and_its_tables_are_joined_in_one_question(runtime: Runtime, lake: Catalog) -> None:
    publish(lake, MESSAGES, ROWS, ERRORS)
    found = query(
        runtime,
        "select count(*) from iceberg_standardized_db.orders_latest join iceberg_standardized_db.orders "
        "using (message_id) join iceberg_curated_db.all_errors using (message_id)",
    )
    assert found.rows == [(2,)]


def test_views_are_listed_and_one_without_its_table_is_no_table(runtime: Runtime) -> None:
    catalog = open_catalog(runtime.environment, runtime.home)
    ensure_table(catalog, tables.standardized("orders"))
    assert table_names(catalog) == ["iceberg_standardized_db.orders", "iceberg_standardized_db.orders_latest"]
    ensure_table(catalog, tables.PARSE_ERRORS)
    assert "iceberg_curated_db.all_errors" in table_names(catalog)
    assert query(runtime, "select * from iceberg_curated_db.all_errors").rows == []
    with pytest.raises(NotFoundError, match=r"no table iceberg_standardized_db\.payments_latest"):
        query(runtime, "select * from iceberg_standardized_db.payments_latest")


def test_athena_gets_the_views_as_statements(lake: Catalog) -> None:
    view = views.named(naming.latest_view("orders"), lake.table_exists)
    assert view is not None
    ddl = view.ddl(lambda identifier: columns_of(lake, identifier))
    assert ddl.startswith('create or replace view "iceberg_standardized_db"."orders_latest" as\nselect')
    assert '"period_reference"\nfrom' in ddl


def test_a_template_without_its_values_is_refused_not_filled_with_nothing() -> None:
    with pytest.raises(UndefinedError):
        named_sql.render("named_cross_period", curated="x")


@pytest.mark.parametrize("topic", ["orders; drop", "Orders", "errors", 'o"'])
def test_no_text_that_is_no_topic_reaches_a_statement(topic: str) -> None:
    with pytest.raises(ValueError, match=r"legal for Glue|shared tables"):
        named_queries.statement("drift", topic)
