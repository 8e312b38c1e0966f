"""The Iceberg tables as data: columns, partitions, properties. Who creates them reads it here.

Format version 2 everywhere: Firehose writes no other, and Athena does not read version 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lean_ops import naming

if TYPE_CHECKING:
    from lean_ops.contracts.spec import ContractSpec

Transform = Literal["identity", "day"]

# Glue shows a column's doc as its comment, and refuses the whole table when one is longer.
_DOC_BYTES = 255

# Shared tables see many writers at once: with the default of 4 retries a quarter of the commits was lost.
MANY_WRITERS = {"commit.retry.num-retries": "20", "commit.retry.min-wait-ms": "50"}
EVERY_TABLE = {
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

STANDARDIZED_COLUMNS = (
    Column("message_id", "string", required=True),
    Column("topic_name", "string", required=True),
    Column("publish_time", "timestamptz", required=True),
    Column("ingestion_ts", "long", required=True, doc="Epoch milliseconds of the processor's arrival."),
    Column("idempotency_key", "string", doc="The envelope's, or the payload's when that has none."),
    Column("period_reference", "string", required=True, doc="YYYY-MM: the payload's, or of publish_time."),
)

# No contract can have a column of this name: it begins with an underscore.
KEY_HASH = "_key_hash"

_CURATED_COLUMNS = (
    Column(KEY_HASH, "long", required=True, doc="64 bits of the key's hash: finds keys in all history."),
    Column("idempotency_key", "string", required=True),
    Column("message_id", "string", required=True),
    Column("publish_time", "timestamptz", required=True),
    Column("period_reference", "string", required=True),
    Column("first_message_id", "string", required=True),
    Column("first_period_reference", "string", required=True),
    Column("first_seen_ts", "timestamptz", required=True, doc="publish_time of the least version."),
    Column("last_updated_ts", "timestamptz", required=True, doc="publish_time of the greatest version."),
    Column("contract_version", "string", required=True),
)
_OPTIONAL_ENVELOPE = (
    Column("ingestion_ts", "long", required=True),
    Column("topic_name", "string", required=True),
)

# Copy-on-write would rewrite every file that holds one corrected row.
_MERGE_ON_READ = {
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}

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
        properties=EVERY_TABLE | MANY_WRITERS,
    )


def standardized(topic: str) -> TableSpec:
    """Every version of every message, flattened: the payload's columns come with the payloads."""
    database, name = naming.standardized_table(topic)
    return TableSpec(
        database,
        name,
        STANDARDIZED_COLUMNS,
        (Partition("period_reference"), Partition("publish_time", "day")),
        # Counts of every column tell which ones a batch saw; by default only the first 100 have any.
        properties=EVERY_TABLE
        | {"write.metadata.metrics.default": "counts"}
        | long_bounds(*(column.name for column in STANDARDIZED_COLUMNS)),
    )


def curated(topic: str, contract: ContractSpec, partitioning: Literal["period", "period_day"]) -> TableSpec:
    """One typed row per key. Rows are sorted by publish_time inside the files, so that days can be skipped."""
    database, name = naming.curated_table(topic)
    envelope = tuple(column for column in _OPTIONAL_ENVELOPE if column.name in contract.envelope_columns)
    payload = tuple(
        Column(column.name, column.column_type.iceberg, column.required, _one_line(column.description))
        for column in contract.payload_columns
    )
    days = (Partition("publish_time", "day"),) if partitioning == "period_day" else ()
    return TableSpec(
        database,
        name,
        (*_CURATED_COLUMNS, *envelope, *payload),
        (Partition("period_reference"), *days),
        sort_columns=("publish_time",),
        properties=EVERY_TABLE | _MERGE_ON_READ | long_bounds(*(column.name for column in _CURATED_COLUMNS)),
    )


def long_bounds(*columns: str) -> dict[str, str]:
    """Bounds by which keys can be looked up: by default texts are cut to 16 characters.

    Not whole values: one key of a megabyte would be in every manifest.
    """
    return {f"write.metadata.metrics.column.{column}": "truncate(128)" for column in columns}


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode()[:_DOC_BYTES].decode(errors="ignore")


def _attempts(database: str, name: str, *more: Column) -> TableSpec:
    return TableSpec(
        database,
        name,
        (*_ATTEMPT_COLUMNS, *more),
        (Partition("topic_name"), Partition("publish_time", "day")),
        properties=EVERY_TABLE | MANY_WRITERS | long_bounds("record_id"),
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

PARSE_ERRORS = _attempts(
    naming.STANDARDIZED_DATABASE,
    "parse_errors",
    Column("ingestion_ts", "long"),
    Column("idempotency_key", "string"),
    Column("json_payload", "string", doc="The source's text, byte for byte; as protected as RAW."),
    Column("contract_version", "string"),
)

# Refers to the Standardized row instead of copying it, so that personal data is not spread.
ERRORS = _attempts(
    naming.CURATED_DATABASE,
    "errors",
    Column("period_reference", "string", doc="With publish_time, where the Standardized row is."),
    Column("column_name", "string", doc="The offending column of the contract."),
    Column("rule", "string", doc="The rule of the contract that it breaks."),
    Column("violations", "string", doc="Everything that is wrong with the record, as JSON; PII masked."),
    Column("contract_version", "string"),
)

SHARED_TABLES = (DLQ_ERRORS, FIREHOSE_ERRORS, PARSE_ERRORS, ERRORS)
