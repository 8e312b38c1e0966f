"""An environment in which contracts are deployed: S3, SNS and DynamoDB are moto, the lake is SQLite and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import boto3
from pyiceberg.catalog import Catalog

from lean_ops import naming
from lean_ops.aws import outbox as outboxes
from lean_ops.aws.alerts import AlertTopic
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.deployments import Ports, deploy
from lean_ops.aws.leases import Claim, Leases
from lean_ops.aws.onboarding import onboard
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry, RegistryEntry
from lean_ops.aws.schema_folder import SchemaFolder
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.batch.steps import Steps
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.deployment_result import DeploymentResult
from lean_ops.naming import Names
from tests.repositories import column, contract
from tests.state.conftest import ENVIRONMENT

LATER_MILLIS = 600_000
ALERTS = "alerts-of-the-test"


def orders(version: str, *columns: dict[str, Any], topic: str = "orders", **fields: Any) -> str:
    """A contract of a version; every one has an order_id."""
    return contract(
        column("order_id", cde=True), *columns, **{"table_name": topic, "version": version, **fields}
    )


class Place(NamedTuple):
    """Right before or right after the effect of the nth step of a run."""

    step: int
    when: Literal["before", "after"]


class KilledError(Exception):
    """Stands for the end of the process: nothing of it runs any more."""


def kill() -> None:
    raise KilledError


class Interrupted(Steps):
    """Does something at one place of a run. `names` are the steps that were begun, in order."""

    def __init__(self, place: Place | None = None, act: Callable[[], object] = kill) -> None:
        super().__init__(log=lambda _: None)
        self.names: list[str] = []
        self._place, self._act = place, act

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        number = len(self.names)
        self.names.append(name)
        with super().__call__(name):
            if Place(number, "before") == self._place:
                self._act()
            yield
            if Place(number, "after") == self._place:
                self._act()


def places(steps: list[str]) -> list[Place]:
    """Between any two steps: right before one is right after the one before it."""
    return [Place(number, "after") for number in range(len(steps))]


class NeverReleased(Leases):
    """The leases of a process that is killed: it gives nothing back."""

    def release(self, claim: Claim) -> None:
        pass


class LaterLeases(Leases):
    """The leases as they are ten minutes later: whoever is dead or asleep has lost his."""

    def acquire(self, name: str, owner: str, seconds: float, now: int) -> Claim:
        return super().acquire(name, owner, seconds, now + LATER_MILLIS)


@dataclass(frozen=True)
class World:
    """One environment."""

    ports: Ports
    dynamodb: Any
    sqs: Any

    @property
    def catalog(self) -> Catalog:
        return self.ports.catalog

    @property
    def store(self) -> SchemaStore:
        return SchemaStore(self.ports.s3, self.ports.names)

    def onboard(self, topic: str = "orders", **settings: Any) -> str:
        spec = TopicSpec(topic=topic, owner="sales", description="Orders.", **settings)
        onboard(self.catalog, self.ports.registry, spec, datetime.now(UTC))
        return topic

    def folder(self, topic: str = "orders") -> SchemaFolder:
        return SchemaFolder(self.ports.s3, self.ports.names, topic)

    def hand_in(self, text: str | bytes, topic: str = "orders", **metadata: str) -> str:
        content = text.encode() if isinstance(text, str) else text
        named = {key.replace("_", "-"): value for key, value in metadata.items()}
        return self.folder(topic).hand_in(content, named)

    def deploy(
        self, topic: str = "orders", steps: Steps | None = None, leases: type[Leases] = Leases
    ) -> DeploymentResult:
        ports = replace(self.ports, leases=leases(self.dynamodb, self.ports.names))
        return deploy(ports, topic, f"run-{next(_RUNS)}", steps or Interrupted())

    def deployed(self, text: str, topic: str = "orders", **metadata: str) -> DeploymentResult:
        self.hand_in(text, topic, **metadata)
        return self.deploy(topic)

    def entry(self, topic: str = "orders") -> RegistryEntry:
        found = self.ports.registry.load(topic)
        assert found is not None
        return found

    def columns(self, topic: str = "orders") -> dict[str, tuple[str, bool]]:
        """The Curated table: type of each column, and whether it is required."""
        table = self.catalog.load_table(naming.curated_table(topic))
        return {field.name: (str(field.field_type), field.required) for field in table.schema().fields}

    def files(self, topic: str = "orders") -> dict[str, bytes]:
        """Every file of a topic's folder, by the rest of its key."""
        s3, bucket = self.ports.s3, self.ports.names.ops_bucket
        root = f"schemas/{topic}/"
        keys = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix=root).get("Contents", ())]
        return {key.removeprefix(root): s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def places(self, topic: str = "orders") -> list[str]:
        """The folders that hold something, with how many files."""
        return sorted(name.partition("/")[0] for name in self.files(topic))

    def report(self, topic: str = "orders") -> dict[str, Any]:
        return dict(json.loads(self.files(topic)["failed/error.json"]))

    def history(self, table: str, topic: str = "orders") -> list[dict[str, Any]]:
        """The rows of an ops table that a topic has, flushed or waiting."""
        outboxes.flush(
            self.catalog, self.ports.outbox, self.ports.leases, f"flush-{next(_RUNS)}", Interrupted()
        )
        if not self.catalog.table_exists((naming.OPS_DATABASE, table)):
            return []
        rows = self.catalog.load_table((naming.OPS_DATABASE, table)).scan().to_arrow().to_pylist()
        return [row for row in rows if row["topic_name"] == topic]

    def alerts(self) -> list[dict[str, str]]:
        """The alerts since the last time, as their subscribers get them."""
        url, found = self.sqs.get_queue_url(QueueName=ALERTS)["QueueUrl"], []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [json.loads(message["Body"]) for message in messages]
        return found


_RUNS = count()


def make_world(dynamodb: Any, names: Names, home: Path) -> World:
    """A fresh environment; nobody has declared anything."""
    s3, sns, sqs = boto3.client("s3"), boto3.client("sns"), boto3.client("sqs")
    s3.create_bucket(Bucket=names.ops_bucket)
    alert_topic = sns.create_topic(Name=names.alert_topic)["TopicArn"]
    queue = sqs.create_queue(QueueName=ALERTS)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(TopicArn=alert_topic, Protocol="sqs", Endpoint=attributes["QueueArn"])
    ports = Ports(
        s3=s3,
        names=names,
        catalog=open_catalog(ENVIRONMENT, home),
        leases=Leases(dynamodb, names),
        registry=Registry(dynamodb, names),
        outbox=Outbox(dynamodb, names),
        alerts=AlertTopic(sns, alert_topic),
        clock=lambda: datetime.now(UTC),
    )
    return World(ports, dynamodb, sqs)
