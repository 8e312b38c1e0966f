"""No personal value is in clear anywhere behind Standardized: not in a file, a log, a result or the state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from lean_ops import naming, tables
from lean_ops.batch.steps import Steps
from lean_ops.resources import STATE_TABLES
from tests.spark.curated_streams import PII_KEY, Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check

pytestmark = pytest.mark.spark

# Every personal value of the streams has it, and nothing else does.
MARK = "@in.clear"


def contents(table: Table) -> Iterator[tuple[str, str]]:
    """All that the files of a table say, decoded: rows, bounds, metadata."""
    folder = Path(urlparse(table.location()).path)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".parquet", ".avro", ".json"}
    for path in files:
        if path.suffix == ".parquet":
            parquet = pq.ParquetFile(path)
            yield str(path), str(parquet.read().to_pylist())
            yield str(path), str(parquet.metadata.to_dict())
        else:
            yield str(path), path.read_bytes().decode("latin-1")
    for manifest in table.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            bounds = (*entry.data_file.lower_bounds.values(), *entry.data_file.upper_bounds.values())
            yield manifest.manifest_path, b" ".join(bounds).decode("latin-1")


def state(world: CuratedWorld) -> Iterator[tuple[str, str]]:
    dynamodb, names = world.lake.dynamodb, world.lake.runtime.names
    for table in STATE_TABLES:
        for page in dynamodb.get_paginator("scan").paginate(TableName=names.state_table(table.name)):
            for item in page["Items"]:
                yield table.name, str(item)


@pytest.mark.parametrize("on_executors", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_nothing_personal_is_in_clear(
    curated_world_of: CuratedWorldOf, capfd: pytest.CaptureFixture[str], on_executors: bool
) -> None:
    world = curated_world_of(on_executors=on_executors)
    rows = Supply(51).take(80)
    assert sum(MARK in row.leaves.get("customer.email", "") for row in rows.values()) > 10
    world.append(rows)
    logged: list[dict[str, Any]] = []
    result = world.run(Steps(logged.append))
    assert result is not None
    world.deploy("1.2")
    replayed = world.run(Steps(logged.append), work=world.replaying())
    assert replayed is not None
    hashes = {row.values.get("email") for row in world.rows().values()} - {None}
    assert hashes
    assert {len(each) for each in hashes} == {64}
    told = capfd.readouterr()
    texts = [
        ("log", json.dumps(logged, default=str)),
        ("results", result.model_dump_json() + replayed.model_dump_json()),
        ("streams", told.out + told.err),
        *state(world),
        *contents(world.lake.catalog.load_table(naming.curated_table(world.name))),
        *contents(world.lake.catalog.load_table(tables.ERRORS.identifier)),
    ]
    assert len(logged) > 10
    secrets = (MARK, PII_KEY.decode(), PII_KEY.hex())
    assert [(place, secret) for place, text in texts for secret in secrets if secret in text] == []


@pytest.mark.faults
def test_the_same_value_has_the_same_hash_in_every_batch_and_on_every_way(
    curated_world_of: CuratedWorldOf,
) -> None:
    supply = Supply(52)
    world = curated_world_of()
    for _ in range(2):
        world.append(supply.take(30))
        world.catch_up()
        world.on_executors = not world.on_executors
    check(world)
