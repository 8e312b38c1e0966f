"""State tests: DynamoDB and S3 are moto inside this process, the lake is SQLite and files, or Glue and S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from moto import mock_aws
from pyiceberg.catalog import Catalog

from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import Stack
from lean_ops.config.environments import CatalogSpec, DefaultEngineSpec, EnvironmentSpec
from lean_ops.naming import Names
from lean_ops.resources import STATE_TABLES
from lean_ops.runtime import Runtime
from local import moto_corrections
from tests.local.conftest import Emulator, an_emulator

ENVIRONMENT = EnvironmentSpec(
    name="test",
    account="000000000000",
    region="us-east-1",
    name_prefix="lean-ops-test",
    catalog=CatalogSpec(kind="sqlite"),
    engine=DefaultEngineSpec(kind="local"),
)


@pytest.fixture(scope="session", autouse=True)
def one_winner_per_race() -> None:
    """moto as it comes lets two conditional writes of two threads succeed."""
    moto_corrections.apply()


@pytest.fixture
def names() -> Names:
    return ENVIRONMENT.names


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(ENVIRONMENT, tmp_path)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", ENVIRONMENT.region)
    with mock_aws():
        yield


@pytest.fixture
def s3(aws: None, names: Names) -> Any:
    """S3 with the operations bucket."""
    client = boto3.client("s3")
    client.create_bucket(Bucket=names.ops_bucket)
    return client


@pytest.fixture
def dynamodb(aws: None, names: Names) -> Any:
    """DynamoDB with the state tables as the infrastructure has them."""
    client = boto3.client("dynamodb")
    for table in STATE_TABLES:
        keys = [(table.partition_key, "HASH"), *([(table.sort_key, "RANGE")] if table.sort_key else [])]
        client.create_table(
            TableName=names.state_table(table.name),
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
    return client


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with an_emulator(tmp_path_factory.mktemp("emulator")) as running:
        yield running


# On Glue and S3 everything takes twice the time: the long suite has it.
@pytest.fixture(params=["sqlite", pytest.param("glue", marks=pytest.mark.faults)])
def open_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Catalog]:
    """Opens the same lake again and again, as several processes would: on files, or on the emulated AWS."""
    if request.param == "sqlite":
        return lambda: open_catalog(ENVIRONMENT, tmp_path)
    emulator: Emulator = request.getfixturevalue("emulator")
    on_glue = ENVIRONMENT.model_copy(update={"catalog": CatalogSpec(kind="glue")})
    Stack(on_glue.name, emulator.pid, {"aws": emulator.endpoint}, {}).write(tmp_path)
    urlopen(Request(f"{emulator.endpoint}/moto-api/reset", method="POST"), timeout=20)  # noqa: S310
    emulator.client("s3").create_bucket(Bucket=on_glue.names.lake_bucket)
    return lambda: open_catalog(on_glue, tmp_path)


@pytest.fixture
def catalog(open_lake: Callable[[], Catalog]) -> Catalog:
    return open_lake()
