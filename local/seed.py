"""Creates what AWS would have by deployment: queues, tables, buckets, rules, mappings. Running it again is safe."""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from lean_ops import resources, tables
from lean_ops import runtime as runtimes
from lean_ops.aws import clients
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.onboarding import onboard
from lean_ops.aws.registry import Registry
from lean_ops.config.repository import Repository, load_topics
from lean_ops.config.topics import TopicSpec
from lean_ops.resources import FUNCTIONS, QUEUES, StateTable
from lean_ops.runtime import Runtime
from local import settings as local_settings
from local.settings import Settings

_ROLE = "lean-ops-local"


@dataclass(frozen=True)
class Seed:
    """An environment on the running emulation."""

    runtime: Runtime
    settings: Settings
    client: Callable[[str], Any]

    def everything(self, topics: Iterable[TopicSpec]) -> None:
        names = self.runtime.names
        for bucket in (names.lake_bucket, names.ops_bucket, names.artifact_bucket):
            self._bucket(bucket)
        for table in resources.STATE_TABLES:
            self._state_table(table)
        self.client("sns").create_topic(Name=names.alert_topic)
        self._pii_key()
        self._functions()
        for rule in resources.OBJECT_RULES:
            self._object_rule(rule)
        catalog = open_catalog(self.runtime.environment, self.runtime.home)
        for spec in tables.SHARED_TABLES:
            ensure_table(catalog, spec)
        registry = Registry(self.client("dynamodb"), names)
        for topic in topics:
            onboard(catalog, registry, topic, datetime.now(UTC))
            self._topic(topic.topic)

    def _pii_key(self) -> None:
        """The key is a file of the home folder: rows hashed under it outlive every emulation."""
        key_id = self.runtime.environment.pii_key_id
        file = self.runtime.home / "keys" / f"pii-{key_id}"
        if not file.is_file():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_bytes(secrets.token_bytes(32))
        with _already("ResourceExistsException"):
            self.client("secretsmanager").create_secret(
                Name=self.runtime.names.pii_secret(key_id), SecretBinary=file.read_bytes()
            )

    def _topic(self, topic: str) -> None:
        names = self.runtime.names
        dead_letters = self._queue(names.dead_letter_queue(topic))
        redrive = {"deadLetterTargetArn": dead_letters, "maxReceiveCount": QUEUES.max_receives}
        queue = self._queue(names.queue(topic), RedrivePolicy=json.dumps(redrive))
        self._mapping(queue, "sqs_processor")
        self._mapping(dead_letters, "dlq_drainer")

    def _queue(self, name: str, **attributes: str) -> str:
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.set_queue_attributes(
            QueueUrl=url,
            Attributes={
                "VisibilityTimeout": str(self.settings.visibility_seconds),
                "MessageRetentionPeriod": str(QUEUES.retention_seconds),
                "MaximumMessageSize": str(QUEUES.max_message_bytes),
                **attributes,
            },
        )
        return self.runtime.names.queue_arn(name)

    def _mapping(self, queue_arn: str, function: str) -> None:
        aws_lambda = self.client("lambda")
        name = self.runtime.names.function(function)
        known = aws_lambda.list_event_source_mappings(EventSourceArn=queue_arn, FunctionName=name)
        if not known["EventSourceMappings"]:
            aws_lambda.create_event_source_mapping(
                EventSourceArn=queue_arn,
                FunctionName=name,
                BatchSize=FUNCTIONS[function].batch_size,
                MaximumBatchingWindowInSeconds=FUNCTIONS[function].batch_window_seconds,
                FunctionResponseTypes=["ReportBatchItemFailures"],
            )

    def _functions(self) -> None:
        """Only their names matter: the runner calls the code of this repository."""
        aws_lambda, iam = self.client("lambda"), self.client("iam")
        with _already("EntityAlreadyExists"):
            iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument="{}")
        for function in FUNCTIONS.values():
            with _already("ResourceConflictException"):
                aws_lambda.create_function(
                    FunctionName=self.runtime.names.function(function.name),
                    Role=f"arn:aws:iam::{self.runtime.names.account}:role/{_ROLE}",
                    Runtime="python3.12",
                    Handler="handler.handler",
                    Code={"ZipFile": _empty_zip()},
                )

    def _object_rule(self, rule: resources.ObjectRule) -> None:
        """EventBridge calls the function by way of a queue: moto cannot call one, and retries come with it."""
        names, events = self.runtime.names, self.client("events")
        pattern = {
            "source": ["aws.s3"],
            "detail-type": ["Object Created"],
            "detail": {
                "bucket": {"name": [names.ops_bucket]},
                "object": {"key": [{"wildcard": rule.key_pattern}]},
            },
        }
        name = names.function(rule.function)
        events.put_rule(Name=name, EventPattern=json.dumps(pattern))
        queue = self._queue(name)
        events.put_targets(Rule=name, Targets=[{"Id": "function", "Arn": queue}])
        self._mapping(queue, rule.function)

    def _bucket(self, bucket: str) -> None:
        s3, region = self.client("s3"), self.runtime.environment.region
        # Only the first region may not be named.
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        with _already("BucketAlreadyOwnedByYou"):
            s3.create_bucket(Bucket=bucket, **place)
        s3.put_bucket_notification_configuration(
            Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )

    def _state_table(self, table: StateTable) -> None:
        dynamodb, name = self.client("dynamodb"), self.runtime.names.state_table(table.name)
        keys = [(table.partition_key, "HASH")] + ([(table.sort_key, "RANGE")] if table.sort_key else [])
        with _already("ResourceInUseException"):
            dynamodb.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key, _ in keys],
                BillingMode="PAY_PER_REQUEST",
            )


@contextmanager
def _already(code: str) -> Iterator[None]:
    """Lets one error pass: what should be made is there."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise


def _empty_zip() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("handler.py", "")
    return content.getvalue()


def main(root: Path) -> None:
    """Seed for every topic of a repository."""
    runtime = runtimes.from_variables(os.environ)
    seed = Seed(runtime, local_settings.from_variables(os.environ), cache(partial(clients.client, runtime)))
    seed.everything(load_topics(Repository(root)).checked().values())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
