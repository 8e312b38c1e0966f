"""A small AWS inside the test process: moto for the services, and a Firehose with AWS's limits.

Every call of our code goes through botocore, where `Calls` sees it, may refuse it, or may end the process
before or after it. The test's own calls (`World.aws`) are made by clients that nobody watches.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
import botocore.handlers
import pyarrow as pa
import pytest
from moto import mock_aws
from moto.sqs import models as sqs_models
from moto.sqs.models import sqs_backends
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lambdas.dlq_drainer import handler as dlq_drainer
from lambdas.firehose_errors import handler as firehose_errors
from lambdas.sqs_processor import handler as sqs_processor
from lean_ops import tables
from lean_ops.aws import clients, error_tables, ingestion
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.aws.patience import Patience
from lean_ops.config.environments import EnvironmentSpec
from lean_ops.ingestion import chunks, envelope, raw_record
from lean_ops.ingestion.envelope import Envelope, Rejection
from lean_ops.ingestion.intake import Ports
from lean_ops.ingestion.raw_record import RawRecord
from lean_ops.resources import DELIVERY, FIREHOSE_ERROR_PREFIX, QUEUES, STATE_TABLES
from lean_ops.runtime import Runtime
from local import moto_queues
from local.functions import Context

TOPIC = "orders"
ACCOUNT = "123456789012"

ENVIRONMENT = EnvironmentSpec.model_validate(
    {
        "name": "test",
        "account": ACCOUNT,
        "region": "us-east-1",
        "name_prefix": "lo",
        "catalog": {"kind": "sqlite"},
        "engine": {"kind": "local"},
    }
)


class Killed(BaseException):
    """The process ended here. No `except Exception` may survive it."""


@dataclass
class Calls:
    """The calls that our code made, in order, as `service.Operation`; one of them may end the process."""

    firehose: Firehose
    made: list[str] = field(default_factory=list)
    kill_before: int | None = None
    kill_after: int | None = None
    refuse: Callable[[str], str | None] = lambda _: None
    edit_request: Callable[[str, dict[str, Any]], None] = lambda *_: None
    edit_answer: Callable[[str, dict[str, Any]], None] = lambda *_: None

    def before(self, event_name: str, params: dict[str, Any], **_: Any) -> Any:
        name = event_name.removeprefix("before-call.")
        self._begin(name)
        code = self.refuse(name)
        if code:
            return SimpleNamespace(status_code=400), _error(code, 400)
        self.edit_request(name, params)
        return self.firehose.answer(params) if name == "firehose.PutRecordBatch" else None

    def after(self, event_name: str, parsed: dict[str, Any], **_: Any) -> None:
        self.edit_answer(event_name.removeprefix("after-call."), parsed)
        self._end()

    def watch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A call that does not go through botocore, seen as one that does."""

        def watched(*arguments: Any, **options: Any) -> Any:
            self._begin(name)
            answer = call(*arguments, **options)
            self._end()
            return answer

        return watched

    def _begin(self, name: str) -> None:
        self.made.append(name)
        if self.kill_before == len(self.made) - 1:
            raise Killed(f"before {name}")

    def _end(self) -> None:
        if self.kill_after == len(self.made) - 1:
            raise Killed(f"after {self.made[-1]}")

    def count(self, service: str) -> int:
        return sum(name.startswith(f"{service}.") for name in self.made)

    def live_on(self) -> None:
        """The next process is not killed."""
        self.kill_before = self.kill_after = None
        self.made.clear()


@dataclass
class Firehose:
    """PutRecordBatch as AWS answers it. `verdict` may refuse an entry with an error code."""

    accepted: list[bytes] = field(default_factory=list)
    verdict: Callable[[bytes], str | None] = lambda _: None
    down: bool = False

    def answer(self, params: dict[str, Any]) -> Any:
        records = [base64.b64decode(each["Data"]) for each in json.loads(params["body"])["Records"]]
        if self.down:
            return SimpleNamespace(status_code=503), _error("ServiceUnavailableException", 503)
        too_much = (
            len(records) > DELIVERY.max_batch_records
            or sum(map(len, records)) > DELIVERY.max_batch_bytes
            or max(map(len, records), default=0) > DELIVERY.max_record_bytes
        )
        if too_much or not records:
            return SimpleNamespace(status_code=400), _error("InvalidArgumentException", 400)
        answers = [self._answer(each) for each in records]
        refused = sum("ErrorCode" in each for each in answers)
        return SimpleNamespace(status_code=200), {"FailedPutCount": refused, "RequestResponses": answers}

    def _answer(self, data: bytes) -> dict[str, str]:
        code = self.verdict(data)
        if code:
            return {"ErrorCode": code, "ErrorMessage": "Slow down."}
        self.accepted.append(data)
        return {"RecordId": str(len(self.accepted))}

    @property
    def rows(self) -> list[RawRecord]:
        found = [raw_record.decode(data) for data in self.accepted]
        assert None not in found
        return [row for row in found if row is not None]

    @property
    def message_ids(self) -> set[str]:
        return {row.message_id for row in self.rows}


@dataclass
class World:
    """One environment: its resources, its tables, and the handlers wired to it."""

    runtime: Runtime
    aws: SimpleNamespace
    calls: Calls
    firehose: Firehose
    pauses: list[float]
    seconds_left: float = 60.0

    @property
    def context(self) -> Context:
        return Context("function", "arn", 512, time.monotonic() + self.seconds_left)

    @property
    def patience(self) -> Patience:
        return Patience(sleep=self.pauses.append, jitter=lambda: 1.0, deadline=sqs_processor.deadline)

    @cached_property
    def ports(self) -> Ports:
        return ingestion.ports(self.runtime, self.patience)

    @cached_property
    def catalog(self) -> Catalog:
        return open_catalog(self.runtime.environment, self.runtime.home)

    @property
    def dlq_errors(self) -> ErrorTable:
        return error_tables.dlq_errors(self.catalog)

    @property
    def firehose_errors(self) -> ErrorTable:
        return error_tables.firehose_errors(self.catalog)

    def queue_url(self, topic: str = TOPIC) -> str:
        url: str = self.aws.sqs.get_queue_url(QueueName=self.runtime.names.queue(topic))["QueueUrl"]
        return url

    def send(self, *bodies: str, topic: str = TOPIC) -> None:
        for run in chunks.by_count(bodies, 10):
            entries = [{"Id": str(index), "MessageBody": text} for index, text in enumerate(run)]
            answer = self.aws.sqs.send_message_batch(QueueUrl=self.queue_url(topic), Entries=entries)
            assert not answer.get("Failed")

    def waiting(self, queue: str) -> list[Any]:
        """The messages in a queue, visible or not."""
        return list(sqs_backends[ACCOUNT]["us-east-1"].queues[queue]._messages)

    def time_passes(self) -> None:
        """Delays and visibility time-outs run out."""
        for queue in sqs_backends[ACCOUNT]["us-east-1"].queues.values():
            queue._messages = queue._messages  # the setter makes every message ready

    def poll(self, handler: Callable[[Any, Any], Any], queue: str, batch: int = 500) -> dict[str, Any] | None:
        """What Lambda's poller does with one batch; None when the queue has nothing to offer."""
        url = self.aws.sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        records: list[dict[str, Any]] = []
        while len(records) < batch:
            received = self.aws.sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=min(10, batch - len(records)), AttributeNames=["All"]
            )
            if "Messages" not in received:
                break
            records.extend(
                sqs_record(each, self.runtime.names.queue_arn(queue)) for each in received["Messages"]
            )
        if not records:
            return None
        answer: dict[str, Any] = handler({"Records": records}, self.context)
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        done = [each["receiptHandle"] for each in records if each["messageId"] not in failed]
        for run in chunks.by_count(done, 10):
            entries = [{"Id": str(index), "ReceiptHandle": handle} for index, handle in enumerate(run)]
            self.aws.sqs.delete_message_batch(QueueUrl=url, Entries=entries)
        return answer

    def process(self, topic: str = TOPIC, batch: int = 500) -> dict[str, Any] | None:
        return self.poll(sqs_processor.handler, self.runtime.names.queue(topic), batch)

    def drain(self, topic: str = TOPIC, batch: int = 500) -> dict[str, Any] | None:
        return self.poll(dlq_drainer.handler, self.runtime.names.dead_letter_queue(topic), batch)

    def exhaust_receives(self, topic: str = TOPIC) -> None:
        """Poll until whatever keeps failing has moved to the dead-letter queue."""
        for _ in range(QUEUES.max_receives + 1):
            self.time_passes()
            self.process(topic)
        self.time_passes()

    def land(self, fails: Callable[[RawRecord], bool] = lambda _: False) -> None:
        """Firehose's buffer reaches RAW; what fails becomes an object under the error prefix."""
        buffered, failed = self.firehose.rows, [row for row in self.firehose.rows if fails(row)]
        self.firehose.accepted.clear()
        for topic in {row.topic_name for row in buffered}:
            table = ensure_table(self.catalog, tables.raw(topic))
            rows = [
                {name: getattr(row, name) for name in row.__struct_fields__}
                for row in buffered
                if row.topic_name == topic and row not in failed
            ]
            table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
        if failed:
            lines = [error_line(raw_record.text(row)) for row in failed]
            self.write_error_object("iceberg-failed", *lines)

    def write_error_object(self, kind: str, *lines: str) -> str:
        """As Firehose does it; returns the key."""
        key = f"{FIREHOSE_ERROR_PREFIX}{kind}/2026/11/18/10/lo-raw-1-{uuid4()}"
        self.aws.s3.put_object(Bucket=self.runtime.names.ops_bucket, Key=key, Body="\n".join(lines).encode())
        return key


def error_line(text: str, code: str = "Iceberg.MissingColumnWithinRecord") -> str:
    """A failed record as Firehose writes it down."""
    return json.dumps(
        {
            "attemptsMade": 1,
            "arrivalTimestamp": 1794996000000,
            "errorCode": code,
            "errorMessage": "No column.",
            "attemptEndingTimestamp": 1794996060000,
            "rawData": base64.b64encode(text.encode()).decode(),
        }
    )


def sqs_record(message: dict[str, Any], arn: str) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "us-east-1",
    }


def body(message_id: str | None, payload: object = None, **more: object) -> str:
    """An envelope, published at a fixed time unless told otherwise."""
    fields: dict[str, object] = {"publish_time": "2026-11-18T08:00:00.123456Z", **more}
    if message_id is not None:
        fields["message_id"] = message_id
    return json.dumps({**fields, "payload": {"n": 1} if payload is None else payload})


def stumble_over(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Our code has a fault that the bodies with this word find."""
    parse = envelope.parse

    def stumbling(text: str, **context: Any) -> Envelope | Rejection:
        if word in text:
            raise ZeroDivisionError
        return parse(text, **context)

    monkeypatch.setattr(envelope, "parse", stumbling)


@contextmanager
def a_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with mock_aws(), monkeypatch.context() as patched:
        # An emulated environment whose endpoint is known; boto3 ignores it, so that moto sees AWS's own.
        patched.setenv("AWS_ENDPOINT_URL", "http://inside.this.process")
        patched.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
        # moto's own queue looks at every message at every call.
        patched.setattr(sqs_models, "Queue", moto_queues.StandardQueue)
        patched.setattr(
            sqs_models, "camelcase_to_underscores", lru_cache(None)(sqs_models.camelcase_to_underscores)
        )
        for action in (moto_queues.receive_message, moto_queues.change_message_visibility):
            patched.setattr(sqs_models.SQSBackend, action.__name__, action)
        services = ("dynamodb", "iam", "lambda", "s3", "sns", "sqs")
        aws = SimpleNamespace(**{name: _unwatched(name) for name in services})
        firehose, pauses = Firehose(), list[float]()
        calls = Calls(firehose)
        runtime = Runtime(ENVIRONMENT, home)
        _create(runtime, aws)
        watched = [("before-call", calls.before), ("after-call", calls.after)]
        patched.setattr(
            botocore.handlers, "BUILTIN_HANDLERS", [*botocore.handlers.BUILTIN_HANDLERS, *watched]
        )
        clients._session.cache_clear()
        world = World(runtime, aws, calls, firehose, pauses)
        for name, value in runtime.variables().items():
            patched.setenv(name, value)
        patched.setattr(SqlCatalog, "commit_table", calls.watch("catalog.Commit", SqlCatalog.commit_table))
        patched.setattr(sqs_processor.deadline, "at", math.inf)
        _wire(world, patched)
        yield world
        clients._session.cache_clear()


@lru_cache
def _unwatched(service: str) -> Any:
    """Made once: what a client talks to is the moto of the moment."""
    return boto3.client(service, region_name="us-east-1")


def _wire(world: World, patched: pytest.MonkeyPatch) -> None:
    """Fresh processes, whose pauses are noted instead of slept."""
    wired = (world.runtime, world.ports)
    patched.setattr(sqs_processor, "_wiring", lambda: wired)
    dlq_drainer._wiring.cache_clear()
    firehose_errors._collector.cache_clear()


def _create(runtime: Runtime, aws: SimpleNamespace) -> None:
    names = runtime.names
    for topic in (TOPIC, "payments"):
        dlq = aws.sqs.create_queue(QueueName=names.dead_letter_queue(topic))["QueueUrl"]
        arn = aws.sqs.get_queue_attributes(QueueUrl=dlq, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": QUEUES.max_receives}
        aws.sqs.create_queue(
            QueueName=names.queue(topic),
            Attributes={
                "RedrivePolicy": json.dumps(policy),
                "VisibilityTimeout": str(QUEUES.visibility_seconds),
            },
        )
    for table in STATE_TABLES:
        keys = [(table.partition_key, "HASH")] + ([(table.sort_key, "RANGE")] if table.sort_key else [])
        aws.dynamodb.create_table(
            TableName=names.state_table(table.name),
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
    aws.s3.create_bucket(Bucket=names.ops_bucket)
    aws.sns.create_topic(Name=names.alert_topic)


def _error(code: str, status: int) -> dict[str, Any]:
    return {
        "Error": {"Code": code, "Message": "refused by the test"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
