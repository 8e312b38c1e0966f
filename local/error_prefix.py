"""What Firehose could not deliver, as objects under the error prefix, in Firehose's own form."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from lean_ops.naming import Names
from lean_ops.resources import FIREHOSE_ERROR_PREFIX
from local.spool import Entry
from local.transform import Destination

Kind = Literal["processing-failed", "iceberg-failed"]


@dataclass(frozen=True)
class FailedRecord:
    """A record that the transform did not return, or that does not fit its table."""

    kind: Kind
    entry: Entry
    code: str
    message: str
    attempts: int = 1
    destination: Destination | None = None

    def line(self, function_arn: str) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "attemptsMade": self.attempts,
            "arrivalTimestamp": self.entry.arrived_ms,
            "errorCode": self.code,
            "errorMessage": self.message,
            "attemptEndingTimestamp": int(time.time() * 1000),
            "rawData": base64.b64encode(self.entry.data).decode(),
        }
        if self.kind == "processing-failed":
            return facts | {"lambdaArn": function_arn}
        return facts | (_place(self.destination) if self.destination else {})


@dataclass(frozen=True)
class FailedFile:
    """A data file that was written, but could not be committed: Firehose then leaves only its path."""

    path: str
    destination: Destination
    message: str
    attempts: int
    kind: Kind = "iceberg-failed"
    code: str = "Iceberg.CommitFailed"

    def line(self, _function_arn: str) -> dict[str, Any]:
        return {
            "attemptsMade": self.attempts,
            "errorCode": self.code,
            "errorMessage": self.message,
            "attemptEndingTimestamp": int(time.time() * 1000),
            "dataFilePath": self.path,
            **_place(self.destination),
        }


Failure = FailedRecord | FailedFile


def _place(destination: Destination) -> dict[str, str]:
    return {
        "destinationDatabaseName": destination.destination_database_name,
        "destinationTableName": destination.destination_table_name,
    }


def put(s3: Any, names: Names, function_arn: str, failures: Sequence[Failure]) -> None:
    """One object per kind of failure, one JSON document per line."""
    now = datetime.now(UTC)
    for kind in sorted({failure.kind for failure in failures}):
        lines = [msgspec.json.encode(each.line(function_arn)) for each in failures if each.kind == kind]
        name = f"{names.delivery_stream}-1-{now:%Y-%m-%d-%H-%M-%S}-{uuid.uuid4()}"
        s3.put_object(
            Bucket=names.ops_bucket,
            Key=f"{FIREHOSE_ERROR_PREFIX}{kind}/{now:%Y/%m/%d/%H}/{name}",
            Body=b"\n".join(lines) + b"\n",
        )
