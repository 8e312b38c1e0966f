"""Settings of the AWS resources, defined once for the infrastructure and for the local stack."""

from __future__ import annotations

from dataclasses import dataclass

DAY = 24 * 3600


@dataclass(frozen=True)
class StateTable:
    """A DynamoDB table: keys are strings, billing is per request."""

    name: str
    partition_key: str
    sort_key: str | None = None
    ttl_attribute: str | None = None


STATE_TABLES = (
    StateTable("checkpoints", "pipeline_id", "checkpoint_type"),
    StateTable("locks", "lock_id"),
    StateTable("schema_registry", "topic_name"),
    StateTable("idempotency_keys", "message_key", ttl_attribute="expires_at"),
    StateTable("breakers", "topic_name"),
    StateTable("outbox", "stream", "sequence"),
)


@dataclass(frozen=True)
class QueueSettings:
    """Redrive and retention as the seeds ask: five receives, then fourteen days in the dead-letter queue."""

    max_receives: int = 5
    retention_seconds: int = 14 * DAY
    visibility_seconds: int = 360
    max_message_bytes: int = 1024 * 1024
    max_delay_seconds: int = 900
    max_batch_messages: int = 10


QUEUES = QueueSettings()


@dataclass(frozen=True)
class FunctionSettings:
    """One Lambda function. Visibility of its queue is six times its timeout, as AWS advises."""

    name: str
    memory_mb: int
    timeout_seconds: int
    batch_size: int = 1
    batch_window_seconds: int = 0
    every_seconds: int = 0


FUNCTIONS = {
    function.name: function
    for function in (
        FunctionSettings("sqs_processor", 512, 60, batch_size=500, batch_window_seconds=5),
        FunctionSettings("firehose_transform", 512, 60),
        FunctionSettings("dlq_drainer", 512, 60, batch_size=500, batch_window_seconds=30),
        FunctionSettings("firehose_errors", 1024, 300, every_seconds=900),
        FunctionSettings("breaker_controller", 256, 60, every_seconds=60),
        FunctionSettings("schema_validator", 512, 300, every_seconds=300),
        FunctionSettings("topic_discovery", 512, 60),
    )
}


@dataclass(frozen=True)
class DeliverySettings:
    """Firehose: AWS's own limits, and the buffer that decides how fresh RAW is."""

    max_batch_records: int = 500
    max_batch_bytes: int = 4 * 1024 * 1024
    max_record_bytes: int = 1000 * 1024
    buffer_mb: int = 64
    buffer_seconds: int = 300
    transform_attempts: int = 4
    # An event may have 3 MB, but Lambda returns 6 MB at most, and the routing more than doubles small records.
    transform_event_bytes: int = 1024 * 1024


DELIVERY = DeliverySettings()

IDEMPOTENCY_SECONDS = DAY


@dataclass(frozen=True)
class BreakerSettings:
    """When a topic's circuit breaker opens, how long it stays open, and what closes it again."""

    error_rate: float = 0.05
    min_count: int = 50
    window_seconds: int = 60
    cool_down_seconds: int = 60
    max_cool_down_seconds: int = 900
    close_after: int = 20


BREAKER = BreakerSettings()

SCHEMA_PREFIX = "schemas/"
DLQ_ARCHIVE_PREFIX = "dlq-archive/"
FIREHOSE_ERROR_PREFIX = "firehose-errors/"
OVERSIZE_PREFIX = "oversize/"
DISCOVERY_PREFIX = "discovery/"
JOB_RESULT_PREFIX = "job-results/"


@dataclass(frozen=True)
class ObjectRule:
    """An EventBridge rule, named like its function: an object created in the ops bucket calls it."""

    key_pattern: str
    function: str


OBJECT_RULES = (
    ObjectRule(f"{FIREHOSE_ERROR_PREFIX}*", "firehose_errors"),
    ObjectRule(f"{SCHEMA_PREFIX}*/pending/schema.json", "schema_validator"),
    ObjectRule(f"{DISCOVERY_PREFIX}*.json", "topic_discovery"),
)
