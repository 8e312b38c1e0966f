"""A small environment for DAGs: what a deployment made, one topic, and the runs of its DAG."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from dags.factory import release
from dags.factory.topic_dag import build_topic_dag
from lean_ops import tables
from lean_ops.aws import clients
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import Stack
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Leases
from lean_ops.aws.registry import Registry
from lean_ops.config.repository import Repository, load_topic
from lean_ops.runtime import Runtime
from local.seed import Seed
from local.settings import Settings
from tests.local.conftest import Emulator
from tests.repositories import ROOT

TOPIC = load_topic(Repository(ROOT), "orders")
MAILBOX = "alerts-heard"


@dataclass(frozen=True)
class World:
    """The environment `local`, on an emulation of its own."""

    runtime: Runtime

    def client(self, service: str) -> Any:
        return clients.client(self.runtime, service)

    def land(self, rows: int = 1) -> None:
        """Rows in RAW, as Firehose would append them."""
        table = ensure_table(open_catalog(self.runtime.environment, self.runtime.home), tables.raw("orders"))
        now = datetime.now(UTC)
        row = {"topic_name": "orders", "publish_time": now, "ingestion_ts": 1, "json_payload": "{}"}
        content = [row | {"message_id": f"m{number}"} for number in range(rows)]
        table.append(pa.Table.from_pylist(content, schema=table.schema().as_arrow()))

    def activate(self, *, with_file: bool = True) -> None:
        """A contract in force, as its deployment leaves it; or one whose file somebody has removed since."""
        names, content = self.runtime.names, (ROOT / "schemas/orders/schema.json").read_bytes()
        if with_file:
            key = "schemas/orders/active/schema.json"
            self.client("s3").put_object(Bucket=names.ops_bucket, Key=key, Body=content)
        leases = Leases(self.client("dynamodb"), names)
        claim = leases.acquire("orders", "test", 60, 0)
        digest = hashlib.sha256(content).hexdigest()
        registry = Registry(self.client("dynamodb"), names)
        registry.activate(claim, "1.0", digest, TOPIC.keys, datetime.now(UTC))
        leases.release(claim)

    def alerts(self) -> list[str]:
        """What people heard since they last listened."""
        sqs = self.client("sqs")
        url = sqs.get_queue_url(QueueName=MAILBOX)["QueueUrl"]
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"])["Message"] for message in messages]

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics that were published."""
        return list(self.client("cloudwatch").list_metrics(Namespace="lean-ops")["Metrics"])

    def run(self, **asked: Any) -> Run:
        """One run of the topic's DAG, all its tasks in this process."""
        dag_run = build_topic_dag(TOPIC, self.runtime.environment).test(run_conf=asked or None)
        return Run(dag_run)


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    dag_run: Any

    @property
    def state(self) -> str:
        return str(self.dag_run.state)

    @property
    def states(self) -> dict[str, str]:
        return {ti.task_id: str(ti.state) for ti in self.dag_run.get_task_instances()}

    def xcom(self, task_id: str, key: str) -> Any:
        """What a task left for others, and for people, to read."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(run_id=self.dag_run.run_id, task_ids=task_id, key=key)
            return XComModel.deserialize_value(session.scalars(query).one())


def a_world(emulator: Emulator, home: Path, patched: pytest.MonkeyPatch) -> World:
    """The environment, freshly deployed; whatever runs in this process finds itself in it."""
    patched.setenv("LEAN_OPS_HOME", str(home))
    patched.setenv("LEAN_OPS_ENV", "local")
    patched.setenv("LEAN_OPS_ROOT", str(ROOT))
    release.runtime.cache_clear()
    release.repository.cache_clear()
    urlopen(Request(f"{emulator.endpoint}/moto-api/reset", method="POST"), timeout=20)  # noqa: S310
    Stack("local", emulator.pid, {"aws": emulator.endpoint}, {}).write(home)
    runtime = release.runtime()
    client = cache(partial(clients.client, runtime))
    Seed(runtime, Settings(), client).everything([TOPIC])
    queue = client("sqs").create_queue(QueueName=MAILBOX)["QueueUrl"]
    arn = runtime.names.queue_arn(queue.rpartition("/")[2])
    client("sns").subscribe(TopicArn=runtime.names.alert_topic_arn, Protocol="sqs", Endpoint=arn)
    return World(runtime)
