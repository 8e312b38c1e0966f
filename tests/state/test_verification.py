"""`verify` and `sql` see what is in the tables, and nothing that the jobs believe to be there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType

from lean_ops import naming, tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.sql import query, table_names
from lean_ops.aws.verification import Verification, Verifier
from lean_ops.batch.batch_plan import Token
from lean_ops.config.environments import CatalogSpec, DefaultEngineSpec
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.errors import LeanOpsError, NotFoundError, UsageError
from lean_ops.runtime import Runtime

START = datetime(2026, 1, 31, 23, 59, 59, 999_998, tzinfo=UTC)
PAYLOAD = '{"amount": 1.10, "customer": {"name": "x"}, "lines": [1, 2.50 ], "gone": null, "none": {}}'
TEXTS = {"amount": "1.10", "customer_name": "x", "lines": "[1, 2.50 ]", "none": "{}"}
PATHS = {"amount": "amount", "customer_name": "customer.name", "lines": "lines", "none": "none"}
TOPIC = TopicSpec(topic="orders", owner="platform", description="Orders.")

Row = dict[str, Any]


@pytest.fixture
def lake(runtime: Runtime) -> Catalog:
    catalog = open_catalog(runtime.environment, runtime.home)
    for spec in (tables.raw("orders"), tables.standardized("orders"), tables.PARSE_ERRORS):
        ensure_table(catalog, spec)
    with catalog.load_table(naming.standardized_table("orders")).update_schema() as update:
        for name, path in PATHS.items():
            update.add_column(name, StringType(), doc=path)
    return catalog


def messages(count: int) -> list[Row]:
    """RAW rows around midnight UTC, so that two publish days have some."""
    return [
        {
            "message_id": f"message-{number}",
            "topic_name": "orders",
            "publish_time": START + timedelta(microseconds=number),
            "ingestion_ts": number,
            "idempotency_key": None,
            "json_payload": PAYLOAD,
        }
        for number in range(count)
    ]


def standardized(row: Row) -> Row:
    return (
        {name: row[name] for name in row if name != "json_payload"} | TEXTS | {"period_reference": "2026-01"}
    )


def append(catalog: Catalog, identifier: tuple[str, str], rows: list[Row], **summary: str) -> int:
    table = catalog.load_table(identifier)
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist(rows, schema=schema), snapshot_properties=summary)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def publish(catalog: Catalog, raw: list[Row], rows: list[Row], errors: list[Row] = ()) -> None:  # type: ignore[assignment]
    """What a batch over these RAW rows would leave behind, if these were the rows it wrote."""
    end = append(catalog, naming.raw_table("orders"), raw)
    if errors:
        faults = [
            {"topic_name": "orders", **{key: row[key] for key in ("message_id", "publish_time")}}
            for row in errors
        ]
        append(catalog, tables.PARSE_ERRORS.identifier, faults)
    token = Token(batch_id="batch", start_snapshot=None, end_snapshot=end, last_day=None, reason="first_read")
    append(catalog, naming.standardized_table("orders"), rows, **token.summary())


def verify(runtime: Runtime, sample: int = 0, topic: TopicSpec = TOPIC) -> Verification:
    return Verifier(runtime, topic).verify(sample)


def failed(result: Verification) -> list[str]:
    return [check.detail for check in result.checks if not check.passed]


def test_books_that_balance_pass_day_by_day(runtime: Runtime, lake: Catalog) -> None:
    raw = messages(5)
    publish(lake, [*raw, raw[3]], [standardized(row) for row in raw[:4]], errors=raw[4:])
    result = verify(runtime, sample=10)
    assert failed(result) == []
    assert [check.statement for check in result.checks][-1].startswith("4 messages derived")
    counted = [
        (str(day["day"]), day["raw_rows"], day["messages"], day["standardized"]) for day in result.days
    ]
    assert counted == [("2026-01-31", 2, 2, 2), ("2026-02-01", 4, 3, 2)]
    assert sum(day["parse_errors"] for day in result.days) == 1


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda rows: rows[1:], "missing: message-0"),
        (lambda rows: [*rows, rows[2]], "doubled: message-2"),
        (lambda rows: [*rows, rows[0] | {"message_id": "nobody"}], "foreign: nobody"),
        (lambda rows: [rows[0] | {"message_id": "message-2"}, *rows[1:]], "missing: message-0"),
    ],
)
def test_a_row_lost_doubled_invented_or_swapped_is_named(
    runtime: Runtime, lake: Catalog, damage: Callable[[list[Row]], list[Row]], fault: str
) -> None:
    raw = messages(3)
    publish(lake, raw, damage([standardized(row) for row in raw]))
    assert any(fault in detail for detail in failed(verify(runtime)))


@pytest.mark.parametrize("column", PATHS)
def test_a_changed_value_is_found_by_deriving_it_once_more(
    runtime: Runtime, lake: Catalog, column: str
) -> None:
    raw = messages(3)
    rows = [standardized(row) for row in raw]
    rows[1][column] = "1.1" if column == "amount" else None
    publish(lake, raw, rows)
    assert failed(verify(runtime)) == []
    assert failed(verify(runtime, sample=3)) == [f"message-1: {PATHS[column]}"]


def test_what_came_after_the_newest_batch_is_waiting_not_missing(runtime: Runtime, lake: Catalog) -> None:
    raw = messages(4)
    publish(lake, raw[:2], [standardized(row) for row in raw[:2]])
    append(lake, naming.raw_table("orders"), raw[2:])
    result = verify(runtime)
    assert (result.waiting, failed(result)) == (2, [])


def test_a_topic_nobody_processed_yet_has_only_waiting_rows(runtime: Runtime, lake: Catalog) -> None:
    append(lake, naming.raw_table("orders"), messages(3))
    result = verify(runtime)
    assert (result.waiting, result.days, result.checks) == (3, [], [])


def test_a_superseded_version_is_accounted_for_only_where_the_topic_says_so(
    runtime: Runtime, lake: Catalog
) -> None:
    raw = [row | {"json_payload": '{"amount": "k"}'} for row in messages(2)]
    kept = standardized(raw[1]) | dict.fromkeys(TEXTS) | {"amount": "k", "idempotency_key": "k"}
    publish(lake, raw, [kept])
    lifo = TOPIC.model_copy(update={"standardized_lifo": "batch", "keys": KeysSpec(idempotency_key="amount")})
    assert failed(verify(runtime, topic=lifo)) == []
    assert failed(verify(runtime)) != []


def test_sql_reads_tables_by_database_and_name(runtime: Runtime, lake: Catalog) -> None:
    append(lake, naming.raw_table("orders"), messages(3))
    answer = query(
        runtime, "select count(*) as n, max(publish_time) as last from iceberg_raw_db.orders_staging"
    )
    assert answer.records() == [{"n": 3, "last": START + timedelta(microseconds=2)}]
    assert "iceberg_raw_db.orders_staging" in table_names(lake)


def test_sql_leaves_out_deleted_rows(runtime: Runtime, lake: Catalog) -> None:
    append(lake, naming.raw_table("orders"), messages(3))
    lake.load_table(naming.raw_table("orders")).delete("message_id = 'message-1'")
    rows = query(runtime, "select message_id from iceberg_raw_db.orders_staging order by 1").rows
    assert rows == [("message-0",), ("message-2",)]


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to 'escaped.csv'",
        "select * from read_csv('/etc/hostname')",
        "attach 'escaped.db'",
        "install httpfs",
        "selec 1",
    ],
)
def test_sql_can_neither_leave_the_lake_nor_fail_without_a_word(
    runtime: Runtime, lake: Catalog, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime.home)
    with pytest.raises(LeanOpsError, match="the query failed"):
        query(runtime, statement)
    assert not list(runtime.home.glob("escaped*"))


def test_a_misspelt_table_is_answered_with_the_nearest_one(runtime: Runtime, lake: Catalog) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean iceberg_raw_db\.orders_staging"):
        query(runtime, "select * from iceberg_raw_db.order_staging")


@pytest.mark.parametrize(
    "statement",
    ["drop table x", "delete from x", "-- select\nunload (select 1) to 's3://x/'", "select 1; vacuum x", ""],
)
def test_athena_is_only_asked_questions(runtime: Runtime, statement: str) -> None:
    engine = DefaultEngineSpec(kind="emr_serverless")
    there = runtime.environment.model_copy(update={"engine": engine, "catalog": CatalogSpec(kind="glue")})
    with pytest.raises(UsageError, match="only one statement that reads"):
        query(Runtime(there, runtime.home), statement)
