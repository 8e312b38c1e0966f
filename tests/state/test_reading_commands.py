"""`lean-ops sql` and `lean-ops verify`, as somebody types them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from pyiceberg.catalog import Catalog
from typer.testing import CliRunner

from lean_ops import tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.cli import app
from lean_ops.naming import Names
from tests.repositories import contract, repository, topic
from tests.state.conftest import ENVIRONMENT
from tests.state.test_curated_verification import CONTRACT, ERRORS, MESSAGES, ROWS, load, publish


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    catalog = open_catalog(ENVIRONMENT, tmp_path / "home")
    topic_tables = (tables.raw("orders"), tables.standardized("orders"))
    for spec in (*topic_tables, tables.curated("orders", CONTRACT, "period"), *tables.SHARED_TABLES):
        ensure_table(catalog, spec)
    return catalog


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEAN_OPS_HOME", str(tmp_path / "home"))
    environment = yaml.safe_dump(ENVIRONMENT.model_dump(mode="json", exclude_unset=True))
    files = {
        "environments/test.yaml": environment,
        "topics/orders.yaml": topic("orders", "keys: {idempotency_key: key}\n"),
    }
    return repository(tmp_path, files | {"schemas/orders/schema.json": contract()}).root


def lean_ops(root: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--env", "test", "--root", str(root)], catch_exceptions=False)


def test_a_named_query_is_asked_or_printed(lake: Catalog, root: Path) -> None:
    publish(lake, MESSAGES, ROWS, ERRORS)
    named = ("sql", "--named", "accountability", "--topic", "orders")
    rows = json.loads(lean_ops(root, *named, "--json").stdout)
    assert {row["layer"]: row["records"] for row in rows}["superseded"] == 2
    printed = lean_ops(root, *named, "--print").stdout
    assert '"iceberg_curated_db"."orders"' in printed
    assert "{" not in printed


def test_the_views_are_printed_as_athena_takes_them(lake: Catalog, root: Path) -> None:
    printed = lean_ops(root, "sql", "--views", "--topic", "orders").stdout
    assert printed.count("create or replace view") == 2
    assert '"iceberg_curated_db"."all_errors"' in printed


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--named", "accountability"),
        ("--named", "drif", "--topic", "orders"),
        ("--named", "drift", "--topic", "Orders"),
        ("--views",),
    ],
)
def test_what_is_missing_or_misspelt_is_a_usage_error(root: Path, arguments: tuple[str, ...]) -> None:
    assert lean_ops(root, "sql", *arguments).exit_code == 2


def test_verify_proves_both_lines_and_names_who_is_missing(lake: Catalog, root: Path) -> None:
    publish(lake, MESSAGES, ROWS, ERRORS)
    answer = lean_ops(root, "verify", "orders", "--json")
    (books,) = json.loads(answer.stdout)
    assert answer.exit_code == 0
    assert [check["passed"] for check in books["curated"]["checks"]] == [True] * 4
    lost = MESSAGES[0] | {"message_id": "lost", "idempotency_key": "nobody"}
    publish(lake, [lost], [], [])
    answer = lean_ops(root, "verify", "orders")
    assert answer.exit_code == 1
    assert "missing: lost" in answer.stdout


def test_verify_derives_values_from_raw_under_the_contract_they_were_made_with(
    lake: Catalog, root: Path, aws: None, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://s3.{ENVIRONMENT.region}.amazonaws.com")
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=names.ops_bucket)
    text = CONTRACT.model_dump_json(by_alias=True, exclude_unset=True)
    s3.put_object(Bucket=names.ops_bucket, Key="schemas/orders/archive/1.0-x.json", Body=text)
    load(lake, amount=Decimal(11))
    answer = lean_ops(root, "verify", "orders", "--deep")
    assert answer.exit_code == 1
    assert "k: amount" in answer.stdout
