"""The straightforward Spark job that lean-ops is measured against.

It does what a first design of such a pipeline does: infer the JSON's schema, parse with `from_json`, remove
duplicates with a window over whole rows, and MERGE into the target. Numbers change on the way, a broken line is
found through the corrupt-record column, and nothing is audited.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType


def standardize(spark: SparkSession, raw: str, target: str, errors: str) -> None:
    """RAW → Standardized: infer, parse, flatten, FIFO by window, add columns, MERGE on message_id."""
    batch = spark.table(raw)
    inferred = spark.read.option("primitivesAsString", "true").json(
        batch.select("json_payload").rdd.map(lambda row: row[0])
    )
    known = StructType([field for field in inferred.schema.fields if field.name != "_corrupt_record"])
    parsed = batch.withColumn(
        "data",
        F.from_json(
            "json_payload",
            known.add("_corrupt_record", "string"),
            {"columnNameOfCorruptRecord": "_corrupt_record"},
        ),
    )
    first = Window.partitionBy("message_id").orderBy("ingestion_ts")
    unique = parsed.withColumn("rank", F.row_number().over(first)).where("rank = 1").drop("rank")
    unique.where("data._corrupt_record is not null").select(
        "message_id", "publish_time", "ingestion_ts", "json_payload"
    ).writeTo(errors).append()
    month = F.date_format("publish_time", "yyyy-MM")
    flat = unique.where("data._corrupt_record is null").select(
        "message_id", "topic_name", "publish_time", "ingestion_ts",
        F.coalesce("idempotency_key", "data._metadata.idempotencyKeyResource").alias("idempotency_key"),
        F.coalesce("data._metadata.periodReference", month).alias("period_reference"),
        *_leaves(known),
    )  # fmt: skip
    _merge(spark, flat, target, "t.message_id = s.message_id", update=False)


def _leaves(schema: StructType, prefix: str = "data", name: str = "") -> list[Column]:
    columns = []
    for field in schema.fields:
        if field.name == "_corrupt_record":
            continue
        path, label = f"{prefix}.`{field.name}`", f"{name}_{field.name.lower()}".strip("_")
        if isinstance(field.dataType, StructType):
            columns.extend(_leaves(field.dataType, path, label))
        else:
            columns.append(F.col(path).cast("string").alias(label))
    return columns


def _merge(spark: SparkSession, frame: DataFrame, target: str, on: str, *, update: bool) -> None:
    have = {field.name for field in spark.table(target).schema}
    for name in frame.columns:
        if name not in have:
            spark.sql(f"alter table {target} add columns ({name} string)")
    frame.createOrReplaceTempView("incoming")
    columns = ", ".join(frame.columns)
    values = ", ".join(f"s.{name}" for name in frame.columns)
    updates = ", ".join(f"t.{name} = s.{name}" for name in frame.columns)
    matched = f"when matched and s.publish_time >= t.publish_time then update set {updates}" if update else ""
    spark.sql(
        f"merge into {target} t using incoming s on {on} {matched} "
        f"when not matched then insert ({columns}) values ({values})"
    )


CURATED = {
    "idempotency_key": "string",
    "message_id": "string",
    "publish_time": "timestamp",
    "period_reference": "string",
    "event_timestamp": "timestamp",
    "user_id": "string",
    "event_type": "string",
    "session_id": "string",
    "duration_ms": "bigint",
    "value": "decimal(18,2)",
    "is_test": "boolean",
    "ip_address": "string",
    "device_id": "string",
    "user_agent": "string",
}
_PATHS = {
    "event_timestamp": "event_timestamp",
    "user_id": "event_userid",
    "event_type": "event_eventtype",
    "session_id": "sessionid",
    "duration_ms": "event_durationms",
    "value": "event_value",
    "is_test": "event_istest",
    "ip_address": "event_metadata_ipaddress",
    "device_id": "event_metadata_deviceid",
    "user_agent": "event_metadata_useragent",
}


def curate(spark: SparkSession, source: str, target: str, months: int | None = 1) -> None:
    """Standardized → Curated: cast, hash, LIFO by window, MERGE on the key within ±1 month (or all history)."""
    envelope = ("idempotency_key", "message_id", "publish_time", "period_reference")
    typed = spark.table(source).select(
        *envelope,
        *(F.expr(f"try_cast({path} as {CURATED[name]})").alias(name) for name, path in _PATHS.items()),
    )
    valid = typed.where("event_timestamp is not null and user_id is not null and event_type is not null")
    hashed = valid.withColumns({name: F.sha2(name, 256) for name in ("user_id", "ip_address")})
    latest = Window.partitionBy("idempotency_key").orderBy(F.desc("publish_time"))
    unique = hashed.withColumn("rank", F.row_number().over(latest)).where("rank = 1").drop("rank")
    near = ""
    if months is not None:
        bounds = unique.agg(F.min("publish_time"), F.max("publish_time")).collect()[0]
        near = (
            f" and t.publish_time >= timestamp'{bounds[0]}' - interval {months} month"
            f" and t.publish_time <= timestamp'{bounds[1]}' + interval {months} month"
        )
    _merge(spark, unique, target, f"t.idempotency_key = s.idempotency_key{near}", update=True)
