"""A file in pending/ opens the gate or is refused with every reason, and no running topic is ever harmed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lean_ops import naming
from lean_ops.aws.registry import Status
from lean_ops.naming import Names
from tests.repositories import column
from tests.state.deploying import World, make_world, orders


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path) -> World:
    made = make_world(dynamodb, names, tmp_path)
    made.onboard()
    return made


V1 = orders("1.0", column("quantity", "int"), column("note"))
V1_1 = orders("1.1", column("quantity", "bigint"), column("note"), column("city"))
BREAKING = orders("1.2", column("quantity", "string"), column("note"))


def test_without_a_schema_messages_land_in_raw_and_the_gate_is_closed(world: World) -> None:
    assert world.catalog.table_exists(naming.raw_table("orders"))
    assert not world.catalog.table_exists(naming.curated_table("orders"))
    assert (world.entry().status, world.entry().open) == (Status.NO_SCHEMA, False)
    assert world.deploy().outcome == "nothing"


def test_a_first_schema_makes_its_tables_and_opens_the_gate(world: World) -> None:
    result = world.deployed(V1, deployed_by="ann")
    assert (result.outcome, result.version, result.classification) == ("activated", "1.0", "first")
    assert world.columns()["quantity"] == ("int", False)
    assert world.columns()["order_id"] == ("string", True)
    assert world.catalog.table_exists(naming.standardized_table("orders"))
    entry = world.entry()
    assert (entry.open, entry.status, entry.version, entry.revalidate_errors) == (
        True,
        Status.READY,
        "1.0",
        "1.0",
    )
    assert world.files() == {"active/schema.json": V1.encode()}
    (row,) = world.history("schema_versions")
    assert (row["version"], row["previous_version"], row["changed_by"]) == ("1.0", None, "ann")
    assert {
        (each["action"], each["column_name"], each["source_layer"]) for each in world.history("drift_log")
    } == {
        ("ADDED", "order_id", "curated"),
        ("ADDED", "quantity", "curated"),
        ("ADDED", "note", "curated"),
    }


def test_an_invalid_schema_names_every_fault_and_the_running_one_goes_on(world: World) -> None:
    world.deployed(V1)
    before = world.entry()
    faulty = orders("one", column("Quantity", "itn"), column("x", default=1.5, cde=True))
    result = world.deployed(faulty)
    assert result.outcome == "rejected"
    assert world.files()["failed/schema.json"] == faulty.encode()
    assert world.files()["active/schema.json"] == V1.encode()
    assert "pending/schema.json" not in world.files()
    pointers = {finding["key"] for finding in world.report()["findings"]}
    assert pointers == {
        "/version",
        "/payload_columns/1/name",
        "/payload_columns/1/type",
        "/payload_columns/2/default",
    }
    assert {"quantity", "int"} <= {finding["nearest"] for finding in world.report()["findings"]}
    entry = world.entry()
    assert (entry.status, entry.open, entry.version, entry.sha256) == (
        Status.ERROR,
        True,
        "1.0",
        before.sha256,
    )
    assert "and 3 more" in entry.error
    (alert,) = world.alerts()
    assert alert["Subject"] == "lean-ops: the contract of orders was refused"
    assert "/payload_columns/1/type: found 'itn'" in alert["Message"]
    assert len(world.history("schema_versions")) == 1


def test_an_invalid_first_schema_leaves_the_gate_closed_and_makes_no_table(world: World) -> None:
    assert world.deployed("{").outcome == "rejected"
    assert (world.entry().status, world.entry().open) == (Status.ERROR, False)
    assert not world.catalog.table_exists(naming.curated_table("orders"))


def test_a_fixed_schema_comes_into_force_and_its_failure_is_gone(world: World) -> None:
    world.deployed("no JSON at all")
    assert world.places() == ["failed", "failed"]
    assert world.deployed(V1).outcome == "activated"
    assert world.places() == ["active"]
    assert (world.entry().status, world.entry().error) == (Status.READY, "")


def test_an_evolved_schema_adds_widens_and_keeps_the_old_one_in_the_archive(world: World) -> None:
    world.deployed(V1)
    result = world.deployed(V1_1, deployed_by="bob")
    assert (result.outcome, result.classification) == ("activated", "safe")
    assert result.implies == ("city: rows stored before hold NULL until Curated is rebuilt",)
    assert world.columns()["quantity"] == ("long", False)
    assert world.columns()["city"] == ("string", False)
    files = world.files()
    (archived,) = [name for name in files if name.startswith("archive/1.0-")]
    assert (files[archived], files["active/schema.json"]) == (V1.encode(), V1_1.encode())
    assert world.entry().revalidate_errors == "1.1"
    rows = {row["version"]: row for row in world.history("schema_versions")}
    assert (rows["1.1"]["previous_version"], rows["1.1"]["changed_by"]) == ("1.0", "bob")
    assert [each["change"] for each in json.loads(rows["1.1"]["diff"])] == ["type_widened", "column_added"]
    assert {
        (row["action"], row["column_name"], row["old_value"], row["new_value"])
        for row in world.history("drift_log")
    } >= {("TYPE_CHANGED", "quantity", "int", "bigint"), ("ADDED", "city", None, None)}


def test_a_breaking_schema_without_a_new_major_is_refused_with_the_plan_it_needs(world: World) -> None:
    world.deployed(V1)
    shape = world.columns()
    result = world.deployed(BREAKING)
    assert result.outcome == "rejected"
    (finding,) = result.findings
    assert (finding["key"], finding["found"]) == ("/version", "'1.2'")
    assert finding["expected"] == "breaking changes need a new major version: at least 2.0, not 1.2"
    (need,) = world.report()["needs"]
    assert need.startswith("quantity: type_changed (int → string): rebuild Curated from Standardized")
    assert (world.columns(), world.entry().open, world.entry().version) == (shape, True, "1.0")


def test_a_new_major_that_the_stored_table_cannot_take_is_refused_too(world: World) -> None:
    world.deployed(V1)
    shape = world.columns()
    result = world.deployed(orders("2.0", column("quantity", "string"), column("note"), column("more")))
    assert result.outcome == "rejected"
    assert "quantity is int, and cannot become string" in result.findings[0]["found"]
    assert result.needs[-1] == "rebuild the table; or keep the column, and add the new one under another name"
    assert world.columns() == shape
    assert world.files()["active/schema.json"] == V1.encode()


def test_a_new_major_that_keeps_stored_rows_readable_comes_into_force_and_says_what_it_implies(
    world: World,
) -> None:
    world.deployed(V1)
    result = world.deployed(orders("2.0", column("quantity", "int"), column("remark", path="note")))
    assert (result.outcome, result.classification) == ("activated", "breaking")
    assert result.implies == ("remark: rebuild Curated from Standardized: stored rows carry the old name",)
    assert {"note", "remark"} <= set(world.columns())


def test_the_keys_of_the_topic_are_part_of_what_is_compared(world: World) -> None:
    world.deployed(V1)
    world.onboard(keys={"idempotency_key": "order_id"})
    result = world.deployed(V1_1)
    assert result.outcome == "rejected"
    assert any(need.startswith("idempotency_key: key_changed") for need in result.needs)


def test_a_rollback_takes_a_file_of_the_archive_and_no_other(world: World) -> None:
    world.deployed(V1)
    world.deployed(V1_1)
    assert world.deployed(V1).outcome == "rejected", "an older file by chance is no rollback"
    assert world.deployed(orders("1.0"), intent="rollback").outcome == "rejected"
    result = world.deployed(V1, intent="rollback", deployed_by="ann")
    assert (result.outcome, result.version, result.classification) == ("activated", "1.0", "rollback")
    assert world.files()["active/schema.json"] == V1.encode()
    assert any(name.startswith("archive/1.1-") for name in world.files())
    assert world.columns()["quantity"] == ("long", False), "wider than the contract, and every row readable"
    assert [(row["version"], row["classification"]) for row in world.history("schema_versions")][-1] == (
        "1.0",
        "rollback",
    )
    assert (world.entry().version, world.entry().open) == ("1.0", True)


def test_a_replayed_event_changes_nothing(world: World) -> None:
    world.deployed(V1)
    entry, files, snapshot = (
        world.entry(),
        world.files(),
        world.catalog.load_table(("iceberg_curated_db", "orders")),
    )
    assert world.deploy().outcome == "nothing"
    after = world.catalog.load_table(("iceberg_curated_db", "orders"))
    assert (world.entry(), world.files()) == (entry, files)
    assert after.metadata_location == snapshot.metadata_location


def test_the_same_file_again_settles_an_older_failure(world: World) -> None:
    world.deployed(V1)
    world.deployed("{}")
    assert world.deployed(V1).outcome == "unchanged"
    assert (world.entry().status, world.places()) == (Status.READY, ["active"])
    assert len(world.history("schema_versions")) == 1


def test_a_pause_outlives_a_deployment(world: World) -> None:
    world.ports.registry.pause("orders", "a migration", "ann", world.ports.clock())
    world.deployed(V1)
    assert (world.entry().processing_enabled, world.entry().open) == (True, False)


def test_a_file_put_into_active_by_hand_is_taken_with_its_tables_or_passed_by(world: World) -> None:
    s3, bucket = world.ports.s3, world.ports.names.ops_bucket
    s3.put_object(Bucket=bucket, Key="schemas/orders/active/schema.json", Body=V1.encode())
    assert (world.deploy().outcome, world.entry().open, "quantity" in world.columns()) == (
        "activated",
        True,
        True,
    )
    for broken in (BREAKING, "{"):
        s3.put_object(Bucket=bucket, Key="schemas/orders/active/schema.json", Body=broken.encode())
        version = f"1.{len(broken)}"
        assert (
            world.deployed(orders(version, column("quantity", "int"), column("note"))).outcome == "activated"
        )
        assert world.entry().version == version
