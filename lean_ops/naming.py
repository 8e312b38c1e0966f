"""The names of everything: one place, used by the jobs, the infrastructure and the local stack alike.

A topic name becomes part of Glue and Iceberg table names, SQS queue names and Airflow DAG ids, so it must be
legal in all of them at once, and no two topics may ever produce the same name (proved by property tests).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

RAW_DATABASE = "iceberg_raw_db"
STANDARDIZED_DATABASE = "iceberg_standardized_db"
CURATED_DATABASE = "iceberg_curated_db"
OPS_DATABASE = "ops_db"
DATABASES = (RAW_DATABASE, STANDARDIZED_DATABASE, CURATED_DATABASE, OPS_DATABASE)

CATALOG = "lean_ops"

TOPIC_LENGTH = 48
PREFIX_LENGTH = 27
_TOPIC = re.compile(rf"[a-z][a-z0-9_]{{0,{TOPIC_LENGTH - 1}}}")
_PREFIX = re.compile(rf"[a-z][a-z0-9-]{{0,{PREFIX_LENGTH - 2}}}[a-z0-9]")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,254}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_RESERVED_BUCKET = re.compile(r"(xn--|sthree-|amzn-s3-demo-).*|.*(-s3alias|--ol-s3|--x-s3|--table-s3)")

# Shared tables and views live in the topics' databases; `_latest` and `_staging` are made from topic names.
SHARED_TABLES = ("parse_errors", "errors", "dlq_errors", "firehose_errors", "all_errors")
ALL_ERRORS = (CURATED_DATABASE, "all_errors")
_MADE_SUFFIXES = ("_latest", "_staging")


def topic_name_fault(name: str) -> str | None:
    """What a legal topic name would be, or None when this is one."""
    if not _TOPIC.fullmatch(name):
        return (
            f"1 to {TOPIC_LENGTH} lower-case letters, digits and underscores, a letter first "
            "(legal for Glue, SQS and Iceberg at once)"
        )
    if name in SHARED_TABLES:
        return f"a name other than the shared tables {', '.join(SHARED_TABLES)}"
    if name.endswith(_MADE_SUFFIXES):
        return (
            f"a name that does not end in {' or '.join(_MADE_SUFFIXES)} (lean-ops makes such tables itself)"
        )
    return None


def nearest_topic_name(name: str) -> str:
    """The legal topic name that a name most likely meant, or an empty string."""
    spelled = snake_case(name, TOPIC_LENGTH)
    return spelled if topic_name_fault(spelled) is None else ""


def snake_case(text: str, length: int) -> str:
    """`Order-Items` and `orderItems` as `order_items`; empty when nothing legal is left."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text[: 2 * length])
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).lstrip("_0123456789")[:length].rstrip("_")


def prefix_fault(prefix: str) -> str | None:
    """What a legal name prefix would be, or None when this is one."""
    if not _PREFIX.fullmatch(prefix) or "--" in prefix:
        return f"2 to {PREFIX_LENGTH} lower-case letters, digits and single hyphens, a letter first"
    return bucket_fault(f"{prefix}-lake-000000000000")


def bucket_fault(name: str) -> str | None:
    """What a legal bucket name would be, or None when this is one."""
    if not _BUCKET.fullmatch(name):
        return "3 to 63 lower-case letters, digits and hyphens, a letter or digit first and last"
    if _RESERVED_BUCKET.fullmatch(name):
        return (
            "a name without the openings and endings that AWS keeps for itself (sthree-, -s3alias and such)"
        )
    return None


def is_identifier(name: str) -> bool:
    """Whether a name may stand in DDL and SQL: checked before quoting, so that no quote can be escaped."""
    return _IDENTIFIER.fullmatch(name) is not None


def dag_id(topic: str) -> str:
    """The topic's DAG."""
    return f"topic__{topic}"


def raw_table(topic: str) -> tuple[str, str]:
    """Where Firehose appends the topic's messages."""
    return RAW_DATABASE, f"{topic}_staging"


def standardized_table(topic: str) -> tuple[str, str]:
    """The topic's flattened messages."""
    return STANDARDIZED_DATABASE, topic


def latest_view(topic: str) -> tuple[str, str]:
    """The latest standardized version per key."""
    return STANDARDIZED_DATABASE, f"{topic}_latest"


def curated_table(topic: str) -> tuple[str, str]:
    """The topic's typed rows, one per key."""
    return CURATED_DATABASE, topic


def stable_hash(text: str) -> int:
    """A hash that is the same in every process, unlike `hash()`."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Names:
    """The AWS resources of one environment."""

    prefix: str
    account: str
    region: str
    lake: str | None = None
    ops: str | None = None
    artifacts: str | None = None

    def queue(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def dead_letter_queue(self, topic: str) -> str:
        return f"{self.prefix}-{topic}-dlq"

    def topic_of_queue(self, queue: str) -> str:
        """The topic whose messages a queue (or its dead-letter queue) carries: the inverse of `queue`."""
        return queue.removeprefix(f"{self.prefix}-").removesuffix("-dlq")

    def queue_arn(self, queue: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{queue}"

    def function(self, name: str) -> str:
        return f"{self.prefix}-{name.replace('_', '-')}"

    def state_table(self, name: str) -> str:
        return f"{self.prefix}-{name.replace('_', '-')}"

    def job(self, name: str) -> str:
        return f"{self.prefix}-{name.replace('_', '-')}"

    @property
    def spark_application(self) -> str:
        """The EMR Serverless application that runs the jobs of all topics."""
        return f"{self.prefix}-spark"

    @property
    def spark_role_arn(self) -> str:
        return f"arn:aws:iam::{self.account}:role/{self.prefix}-spark"

    def pii_secret(self, key_id: str) -> str:
        return f"{self.prefix}/pii/{key_id}"

    @property
    def delivery_stream(self) -> str:
        return f"{self.prefix}-raw"

    @property
    def alert_topic(self) -> str:
        return f"{self.prefix}-alerts"

    @property
    def alert_topic_arn(self) -> str:
        return f"arn:aws:sns:{self.region}:{self.account}:{self.alert_topic}"

    @property
    def schema_rule(self) -> str:
        return f"{self.prefix}-schema-pending"

    @property
    def lake_bucket(self) -> str:
        """Iceberg tables only: no lifecycle rule may ever touch it."""
        return self.lake or f"{self.prefix}-lake-{self.account}"

    @property
    def ops_bucket(self) -> str:
        """Schemas, the DLQ archive, Firehose's error prefix."""
        return self.ops or f"{self.prefix}-ops-{self.account}"

    @property
    def artifact_bucket(self) -> str:
        """What a release uploads: DAGs, the wheel, job entry points."""
        return self.artifacts or f"{self.prefix}-artifacts-{self.account}"
