"""The Iceberg tables as data: columns, partitions, properties. Who creates them reads it here.

Format version 2 everywhere: Firehose writes no other, and Athena does not read version 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lean_ops import naming

Transform = Literal["identity", "day"]

# Shared tables see many writers at once: with the default of 4 retries a quarter of the commits was lost.
_MANY_WRITERS = {"commit.retry.num-retries": "20", "commit.retry.min-wait-ms": "50"}
_EVERY_TABLE = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.target-file-size-bytes": str(256 * 1024 * 1024),
    "commit.manifest.target-size-bytes": str(8 * 1024 * 1024),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    # Range would run the parsing stage twice; hash keeps one file per partition and task.
    "write.distribution-mode": "hash",
}


@dataclass(frozen=True)
class Column:
    """A column; `type` is written as Iceberg writes it."""

    name: str
    type: str
    required: bool = False
    doc: str = ""


@dataclass(frozen=True)
class Partition:
    """A partition field, in the order in which partitions nest."""

    column: str
    transform: Transform = "identity"


@dataclass(frozen=True)
class TableSpec:
    """What a table must look like. Columns beyond these are none of this spec's business."""

    database: str
    name: str
    columns: tuple[Column, ...]
    partitions: tuple[Partition, ...] = ()
    sort_columns: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def identifier(self) -> tuple[str, str]:
        return self.database, self.name


# The processor gives every message an identity; required here, so that no other writer can append one without.
RAW_COLUMNS = (
    Column("message_id", "string", required=True),
    Column("topic_name", "string", required=True),
    Column("publish_time", "timestamptz", required=True),
    Column("ingestion_ts", "long", required=True, doc="Epoch milliseconds of the processor's arrival."),
    Column("idempotency_key", "string", doc="From the envelope; the payload may fill a missing one later."),
    Column("json_payload", "string", required=True, doc="The source's text, byte for byte."),
)

# One row is one attempt at one record; `record_id` names the record, a later row resolves an earlier one.
_ATTEMPT_COLUMNS = (
    Column("record_id", "string", doc="Topic, hop, message_id and publish_time as one text."),
    Column("topic_name", "string"),
    Column("message_id", "string"),
    Column("publish_time", "timestamptz"),
    Column("attempt", "int"),
    Column("status", "string", doc="open, replayed or resolved; the latest attempt counts."),
    Column("error_code", "string", doc="Machine-readable, made to be aggregated."),
    Column("detail", "string"),
    Column("batch_id", "string", doc="What the row was written for; the same cause adds no second row."),
    Column("detected_at", "timestamptz"),
)


def raw(topic: str) -> TableSpec:
    """Append-only landing table of a topic: requires nothing of the payload."""
    database, name = naming.raw_table(topic)
    return TableSpec(
        database,
        name,
        RAW_COLUMNS,
        (Partition("publish_time", "day"),),
        properties=_EVERY_TABLE | _MANY_WRITERS,
    )


def _attempts(database: str, name: str, *more: Column) -> TableSpec:
    return TableSpec(
        database,
        name,
        (*_ATTEMPT_COLUMNS, *more),
        (Partition("topic_name"), Partition("publish_time", "day")),
        properties=_EVERY_TABLE | _MANY_WRITERS,
    )


DLQ_ERRORS = _attempts(
    naming.RAW_DATABASE,
    "dlq_errors",
    Column("body", "string", doc="The SQS body, its resolved identity written in; as protected as RAW."),
    Column("receive_count", "int"),
    Column("archive_key", "string", doc="The S3 object that holds the whole batch."),
)

FIREHOSE_ERRORS = _attempts(
    naming.RAW_DATABASE,
    "firehose_errors",
    Column("record", "string", doc="The record as Firehose had it; as protected as RAW."),
    Column("archive_key", "string", doc="The object under the error prefix that it came from."),
)

SHARED_TABLES = (DLQ_ERRORS, FIREHOSE_ERRORS)
