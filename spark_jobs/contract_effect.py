"""What a contract would do to records that are stored already, found by the very code that would do it.

Reads RAW since a moment, and the records of open errors whenever they came; flattens and validates them as the
jobs do, under the contract in force and under the new one. Writes nothing, and takes no lease.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops import naming, tables
from lean_ops import runtime as runtimes
from lean_ops.contracts import contract_file
from lean_ops.contracts.effect import BrokenRule, ContractEffect, EffectArguments
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from spark_jobs.iceberg import IcebergTable
from spark_jobs.session import build_session
from spark_jobs.transforms.days import published_on
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.payloads import TableColumn, TableShape, flatten
from spark_jobs.transforms.validation import Places, validated

_VIOLATION = "array<struct<code:string,column:string,rule:string>>"
_RECENT, _OPEN = "_recent", "_open"


def run(spark: SparkSession, arguments: EffectArguments) -> ContractEffect:
    """Count what would change."""
    new = contract_file.read("contract", arguments.contract.encode()).checked()
    active = arguments.active
    old = contract_file.read("active", active.encode()).checked() if active is not None else None
    messages = _messages(spark, arguments).persist()
    shape, places = _shape(arguments, [new, *([old] if old else [])])
    columns = ("message_id", "topic_name", "publish_time", "ingestion_ts", "idempotency_key", "json_payload")
    rows = messages.select(*columns).mapInArrow(
        partial(flatten, shape=shape), from_arrow_schema(shape.schema)
    )
    rows = rows.persist()
    judged = _verdicts(rows, new, places, "_after")
    if old is None:
        judged = judged.withColumn("_before", F.lit(None).cast("string"))
    else:
        judged = judged.join(_verdicts(rows, old, places, "_before"), on=IDENTITY, how="inner")
    found = messages.select(*IDENTITY, _RECENT, _OPEN).join(judged, on=IDENTITY, how="inner")
    try:
        return _counted(messages, found)
    finally:
        for frame in (messages, rows):
            frame.unpersist()


def _messages(spark: SparkSession, arguments: EffectArguments) -> DataFrame:
    """Each message once, with whether it is recent and whether its error is open."""
    topic = arguments.topic.topic
    errors = IcebergTable(spark, tables.ERRORS.identifier)
    latest = errors.at(errors.head).where(F.col("topic_name") == topic).groupBy(*IDENTITY)
    status = latest.agg(F.max_by("status", "attempt").alias("_status"))
    still_open = status.where("_status = 'open'").select(*IDENTITY, F.lit(True).alias(_OPEN))
    days = still_open.select(F.to_date("publish_time").alias("day")).distinct().collect()
    recent = F.col("publish_time") >= F.lit(arguments.since)
    raw = IcebergTable(spark, naming.raw_table(topic))
    rows = raw.at(raw.head).where(recent | published_on([row.day for row in days]))
    # A message is its identity: of its deliveries any one will do.
    once = rows.dropDuplicates(IDENTITY).withColumn(_RECENT, recent)
    marked = once.join(still_open, on=IDENTITY, how="left").fillna(value=False, subset=[_OPEN])
    return marked.where(F.col(_RECENT) | F.col(_OPEN))


def _shape(arguments: EffectArguments, contracts: Sequence[ContractSpec]) -> tuple[TableShape, Places]:
    """A Standardized table that has exactly the paths which the contracts ask for."""
    paths = sorted({column.payload_path for each in contracts for column in each.payload_columns})
    names = {path: f"p{number}" for number, path in enumerate(paths)}
    columns = (
        *(TableColumn(name) for name in (*ENVELOPE, OVERFLOW)),
        *(TableColumn(name, path) for path, name in names.items()),
    )
    keys = arguments.topic.keys
    return TableShape(columns, keys.idempotency_key, keys.period_reference), Places(names, overflow=False)


def _verdicts(rows: DataFrame, contract: ContractSpec, places: Places, name: str) -> DataFrame:
    """The violations of each row under a contract, NULL where there are none."""

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            told = validated(table, contract, places).violations
            yield from table.select(IDENTITY).append_column(name, told).to_batches()

    schema = rows.select(*IDENTITY).schema.add(name, "string")
    return rows.mapInArrow(judge, schema)


def _counted(messages: DataFrame, found: DataFrame) -> ContractEffect:
    valid_before, valid_after = F.col("_before").isNull(), F.col("_after").isNull()
    newly_failing = F.col(_RECENT) & valid_before & ~valid_after
    asked = messages.agg(F.count_if(_RECENT).alias("n")).collect()[0].n
    counts = found.agg(
        F.count_if(_RECENT).alias("records"),
        F.count_if(newly_failing).alias("newly_failing"),
        F.count_if(F.col(_RECENT) & ~valid_before & valid_after).alias("healed"),
        F.count_if(_OPEN).alias("open_errors"),
        F.count_if(F.col(_OPEN) & valid_after).alias("open_errors_healed"),
    ).collect()[0]
    broken = found.where(newly_failing).select(F.explode(F.from_json("_after", _VIOLATION)).alias("v"))
    rules = broken.groupBy("v.code", "v.column", "v.rule").count().orderBy("code", "column", "rule").collect()
    return ContractEffect(
        **counts.asDict(),
        unreadable=asked - counts.records,
        broken_rules=tuple(
            BrokenRule(code=row.code, column=row["column"], rule=row.rule, records=row["count"])
            for row in rules
        ),
    )


def main(argv: Sequence[str]) -> int:
    """Run as a process of its own; one JSON answer on stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arguments", required=True, help="EffectArguments as JSON")
    arguments = EffectArguments.model_validate_json(parser.parse_args(argv).arguments)
    spark = build_session(runtimes.from_variables(os.environ))
    try:
        effect = run(spark, arguments)
    finally:
        spark.stop()
    sys.stdout.write(effect.model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
