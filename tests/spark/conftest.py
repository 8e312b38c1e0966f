"""One warm Spark application for all tests of a worker, on files and on the emulated Glue and S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lean_ops import tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import Stack, client
from lean_ops.aws.ddl import ensure_table
from lean_ops.config.environments import CatalogSpec, DefaultEngineSpec, EnvironmentSpec
from lean_ops.config.topics import TopicSpec
from lean_ops.resources import STATE_TABLES
from lean_ops.runtime import Runtime
from spark_jobs.session import build_session, settings
from tests.local.conftest import Emulator, an_emulator
from tests.spark.curated_streams import PII_KEY
from tests.spark.curated_world import KEY_ID, CuratedWorld, CuratedWorldOf, curated_topic
from tests.spark.oracle import Rules
from tests.spark.streams import RULES
from tests.spark.world import Lake, World, WorldOf, session_with, topic_spec

_numbers = count(1)


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with an_emulator(tmp_path_factory.mktemp("emulator")) as running:
        yield running


@pytest.fixture(scope="session")
def runtimes(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runtime]:
    """The runtime of a catalog kind, on the running emulation."""

    @cache
    def runtime(kind: str) -> Runtime:
        environment = EnvironmentSpec(
            name=f"test{kind}",
            account="000000000000",
            region="us-east-1",
            name_prefix=f"lean-ops-test-{kind}",
            catalog=CatalogSpec(kind=kind),
            engine=DefaultEngineSpec(kind="local"),
        )
        home = tmp_path_factory.mktemp(kind)
        Stack(environment.name, emulator.pid, {"aws": emulator.endpoint}, {}).write(home)
        return Runtime(environment, home)

    return runtime


@pytest.fixture(scope="session")
def spark(emulator: Emulator, runtimes: Callable[[str], Runtime]) -> Iterator[SparkSession]:
    # Java takes them over when it starts; the tests of other folders on this worker must not see them.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "local")
        # It lives for minutes: the time for compiling twice never comes back.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = build_session(runtimes("sqlite"), app="tests")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lakes(
    spark: SparkSession, emulator: Emulator, runtimes: Callable[[str], Runtime]
) -> Callable[[str], Lake]:
    """The lake of a catalog kind, with its shared tables and its state."""

    @cache
    def lake(kind: str) -> Lake:
        runtime = runtimes(kind)
        dynamodb = client(runtime, "dynamodb")
        _create_state_tables(dynamodb, runtime)
        if kind == "glue":
            emulator.client("s3").create_bucket(Bucket=runtime.names.lake_bucket)
        catalog = open_catalog(runtime.environment, runtime.home)
        for spec in tables.SHARED_TABLES:
            ensure_table(catalog, spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", emulator.endpoint)
            return Lake(runtime, catalog, dynamodb, session_with(spark, settings(runtime)))

    return lake


def _create_state_tables(dynamodb: Any, runtime: Runtime) -> None:
    for table in STATE_TABLES:
        keys = [(table.partition_key, "HASH"), *([(table.sort_key, "RANGE")] if table.sort_key else [])]
        dynamodb.create_table(
            TableName=runtime.names.state_table(table.name),
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )


# Glue and S3 take twice the time; the fast suite has one stream on them, the long one everything.
@pytest.fixture(params=["sqlite", pytest.param("glue", marks=pytest.mark.faults)])
def lake(request: pytest.FixtureRequest, lakes: Callable[[str], Lake]) -> Lake:
    return lakes(request.param)


@pytest.fixture(scope="session")
def world_of(lakes: Callable[[str], Lake]) -> WorldOf:
    """Makes topics, each with tables of its own; on files unless it is told another lake."""

    def make(
        rules: Rules = RULES, lake: Lake | None = None, *, on_executors: bool = False, **drift: Any
    ) -> World:
        topic = topic_spec(f"topic{next(_numbers)}", rules, **drift)
        return World(lake or lakes("sqlite"), topic, rules, on_executors)

    return make


@pytest.fixture
def world(lake: Lake, world_of: WorldOf) -> World:
    """A topic, once on files and once on Glue and S3."""
    return world_of(lake=lake)


@pytest.fixture(scope="session")
def curated_world_of(lakes: Callable[[str], Lake]) -> CuratedWorldOf:
    """Makes topics whose Standardized table is written by the test, unless it is told a topic that has one.

    They are on files unless it is told another lake.
    """

    @cache
    def with_contracts(kind: str) -> Lake:
        lake = lakes(kind)
        names = lake.runtime.names
        client(lake.runtime, "s3").create_bucket(Bucket=names.ops_bucket)
        secrets = client(lake.runtime, "secretsmanager")
        secrets.create_secret(Name=names.pii_secret(KEY_ID), SecretBinary=PII_KEY)
        return lake

    def make(
        lake: Lake | None = None,
        *,
        topic: TopicSpec | None = None,
        on_executors: bool = False,
        **changes: Any,
    ) -> CuratedWorld:
        kind = lake.runtime.environment.catalog.kind if lake else "sqlite"
        own = topic or curated_topic(f"topic{next(_numbers)}", **changes)
        world = CuratedWorld(with_contracts(kind), own, on_executors=on_executors)
        if topic is None:
            world.create()
        world.deploy(world.version)
        return world

    return make


@pytest.fixture
def curated_world(lake: Lake, curated_world_of: CuratedWorldOf) -> CuratedWorld:
    """A topic, once on files and once on Glue and S3."""
    return curated_world_of(lake)
