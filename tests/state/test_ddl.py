"""Tables are made and mended from their specs, whoever else is doing the same, and no stored row is harmed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lean_ops import ops_tables, tables
from lean_ops.aws.ddl import add_columns, ensure_table
from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from lean_ops.errors import LeanOpsError
from lean_ops.payload import columns
from lean_ops.tables import Column, TableSpec

CONTRACT = ContractSpec(
    table_name="orders",
    version="1.0",
    envelope_columns=("message_id", "idempotency_key", "publish_time", "period_reference", "topic_name"),
    payload_columns=(
        ColumnSpec(name="order_id", type="string", cde=True, description="First line.\nSecond " + "é" * 300),
        ColumnSpec(name="quantity", type="int"),
        ColumnSpec(name="amount", type="decimal(10,2)"),
        ColumnSpec(name="paid_at", type="timestamp"),
    ),
)
CURATED = tables.curated("orders", CONTRACT, "period")
EVERY_SPEC = [
    tables.raw("orders"),
    tables.standardized("orders"),
    CURATED,
    *tables.SHARED_TABLES,
    *ops_tables.OPS_TABLES,
]


def shape(table: Table) -> dict[str, tuple[str, bool]]:
    return {field.name: (str(field.field_type), field.required) for field in table.schema().fields}


def with_column(spec: TableSpec, column: Column) -> TableSpec:
    """The spec with a column of that name replaced, or added."""
    others = tuple(each for each in spec.columns if each.name != column.name)
    return replace(spec, columns=(*others, column))


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=lambda spec: ".".join(spec.identifier))
def test_a_table_is_what_its_spec_says_and_running_again_commits_nothing(
    catalog: Catalog, spec: TableSpec
) -> None:
    table = ensure_table(catalog, spec)
    assert shape(table) == {column.name: (column.type, column.required) for column in spec.columns}
    assert [field.name for field in table.spec().fields] == [
        f"{partition.column}_day" if partition.transform == "day" else partition.column
        for partition in spec.partitions
    ]
    assert table.format_version == 2
    assert {key: table.properties.get(key) for key in spec.properties if key != "format-version"} == {
        key: value for key, value in spec.properties.items() if key != "format-version"
    }
    assert len(table.snapshots()) == 1
    assert table.scan().to_arrow().num_rows == 0
    assert ensure_table(catalog, spec).metadata_location == table.metadata_location


def test_docs_are_one_line_that_glue_accepts() -> None:
    docs = [column.doc for spec in EVERY_SPEC for column in spec.columns]
    assert not [doc for doc in docs if len(doc.encode()) > 255 or "\n" in doc]
    order_id = next(column for column in CURATED.columns if column.name == "order_id")
    assert order_id.doc.startswith("First line. Second éé")


def test_the_envelope_of_standardized_is_the_one_that_payload_columns_avoid() -> None:
    assert tuple(column.name for column in tables.STANDARDIZED_COLUMNS) == columns.ENVELOPE


def test_the_key_comes_first_and_only_the_envelope_that_the_contract_asks_for() -> None:
    names = [column.name for column in CURATED.columns]
    assert names[:2] == ["_key_hash", "idempotency_key"]
    assert names[10:] == ["topic_name", "order_id", "quantity", "amount", "paid_at"]


def test_days_partition_curated_only_on_request() -> None:
    assert [partition.column for partition in CURATED.partitions] == ["period_reference"]
    by_day = tables.curated("orders", CONTRACT, "period_day")
    assert [partition.column for partition in by_day.partitions] == ["period_reference", "publish_time"]


def test_a_drifted_property_is_set_right_and_others_are_left_alone(catalog: Catalog) -> None:
    table = ensure_table(catalog, CURATED)
    with table.transaction() as transaction:
        transaction.set_properties({"write.distribution-mode": "range", "owner": "somebody"})
    mended = ensure_table(catalog, CURATED)
    assert mended.properties["write.distribution-mode"] == "hash"
    assert mended.properties["owner"] == "somebody"


def test_a_lost_sort_order_is_restored(catalog: Catalog) -> None:
    ensure_table(catalog, replace(CURATED, sort_columns=()))
    mended = ensure_table(catalog, CURATED)
    by = [mended.schema().find_column_name(field.source_id) for field in mended.sort_order().fields]
    assert by == ["publish_time"]
    assert ensure_table(catalog, CURATED).metadata_location == mended.metadata_location


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("quantity", "long"), ("long", False)),
        (Column("amount", "decimal(18, 2)"), ("decimal(18, 2)", False)),
        (Column("order_id", "string"), ("string", False)),
        (Column("colour", "string", required=True), ("string", False)),
    ],
    ids=["int widens", "decimal widens", "required is relaxed", "new is optional: old rows have no value"],
)
def test_legal_evolution_is_applied(catalog: Catalog, column: Column, expected: tuple[str, bool]) -> None:
    before = ensure_table(catalog, CURATED)
    evolved = with_column(CURATED, column)
    table = ensure_table(catalog, evolved)
    assert shape(table) == shape(before) | {column.name: expected}
    assert ensure_table(catalog, evolved).metadata_location == table.metadata_location


def test_columns_that_payloads_brought_are_added_beside_the_spec_in_one_commit(catalog: Catalog) -> None:
    spec = tables.standardized("orders")
    before = ensure_table(catalog, spec)
    new = [Column("order_id", "string", doc="order.id"), Column("note", "string", doc="note")]
    table = add_columns(catalog, spec, new)
    assert len(table.metadata.metadata_log) == len(before.metadata.metadata_log) + 1
    assert [table.schema().find_field(column.name).doc for column in new] == ["order.id", "note"]
    assert table.schema().find_field("order_id").field_id > before.metadata.last_column_id
    assert add_columns(catalog, spec, new[:1]).metadata_location == table.metadata_location


def test_docs_follow_the_spec(catalog: Catalog) -> None:
    ensure_table(catalog, CURATED)
    table = ensure_table(catalog, with_column(CURATED, Column("quantity", "int", doc="Pieces.")))
    assert table.schema().find_field("quantity").doc == "Pieces."


def test_what_the_spec_no_longer_has_stays_and_is_relaxed(catalog: Catalog) -> None:
    before = ensure_table(catalog, CURATED)
    without = replace(CURATED, columns=tuple(each for each in CURATED.columns if each.name != "order_id"))
    assert shape(ensure_table(catalog, without)) == shape(before) | {"order_id": ("string", False)}


def test_an_older_spec_takes_nothing_back(catalog: Catalog) -> None:
    wider = with_column(with_column(CURATED, Column("quantity", "long")), Column("order_id", "string"))
    table = ensure_table(catalog, wider)
    assert shape(ensure_table(catalog, CURATED)) == shape(table)


@pytest.mark.parametrize("change", ["decimal(18, 3)", "decimal(5, 3)", "string", "long"])
def test_a_change_that_would_harm_stored_rows_is_refused_by_name(catalog: Catalog, change: str) -> None:
    before = ensure_table(catalog, CURATED)
    with pytest.raises(LeanOpsError, match=r"iceberg_curated_db\.orders: amount is decimal\(10, 2\)"):
        ensure_table(catalog, with_column(CURATED, Column("amount", change)))
    assert catalog.load_table(CURATED.identifier).metadata_location == before.metadata_location


def test_another_partitioning_is_refused(catalog: Catalog) -> None:
    ensure_table(catalog, CURATED)
    with pytest.raises(LeanOpsError, match="is partitioned by"):
        ensure_table(catalog, tables.curated("orders", CONTRACT, "period_day"))


@pytest.mark.parametrize("exists", [False, True])
def test_many_who_create_and_evolve_at_once_end_in_one_table(
    *, open_lake: Callable[[], Catalog], exists: bool
) -> None:
    workers = 6
    if exists:
        ensure_table(open_lake(), CURATED)
    lakes = [open_lake() for _ in range(workers)]
    line = threading.Barrier(workers)

    def run(worker: int) -> None:
        line.wait(20)
        ensure_table(lakes[worker], with_column(CURATED, Column(f"colour_{worker}", "string")))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(run, range(workers)))
    table = open_lake().load_table(CURATED.identifier)
    assert {f"colour_{worker}" for worker in range(workers)} <= set(shape(table))
    assert len(table.snapshots()) == 1
