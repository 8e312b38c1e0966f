"""What is taken apart arrives in Spark and in Parquet as it was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from lean_ops.payload.survey import Survey
from spark_jobs.transforms.payloads import FAULTS, TableColumn, TableShape, flatten, take_apart

pytestmark = pytest.mark.spark

SHAPE = TableShape(
    (
        *(TableColumn(name) for name in (*ENVELOPE, OVERFLOW)),
        TableColumn("a", "a", ("string",)),
        TableColumn("n", "n"),
    ),
    period_path="p",
)
TEXTS = {
    "nul": "a\x00b\x00",
    "controls": "".join(map(chr, range(0x20))) + "\x7f\x85",
    "beyond": "é😀\U0010ffff\ufeff\ufffe\uffff\u2028",
    "empty": "",
    "null word": "null",
    "huge": "x" * 20_000_000,
}


def raw(spark: SparkSession, payloads: dict[str, str | None]) -> DataFrame:
    rows = pa.table(
        {
            "message_id": list(payloads),
            "topic_name": ["t"] * len(payloads),
            "ingestion_ts": list(range(len(payloads))),
            "idempotency_key": pa.nulls(len(payloads), pa.string()),
            "json_payload": list(payloads.values()),
        }
    )
    return spark.createDataFrame(rows).withColumn(
        "publish_time", F.lit("2026-01-31T23:59:59.999999Z").cast("timestamp")
    )


def flattened(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(partial(flatten, shape=SHAPE), from_arrow_schema(SHAPE.schema))


def faults(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (taken.faults for taken in take_apart(batches, SHAPE, Survey(SHAPE.known)))


def test_every_character_and_every_digit_survive_the_way_into_a_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    numbers = {"digits": "9" * 6000, "zeros": "100000000000.50", "minus": "-0", "exponent": "1E400"}
    payloads = {name: json.dumps({"a": text, "over": [text]}) for name, text in TEXTS.items()}
    payloads |= {name: f'{{"n":{number}}}' for name, number in numbers.items()}
    target = str(tmp_path / "standardized")
    flattened(raw(spark, payloads).repartition(2)).write.parquet(target)
    rows = {row["message_id"]: row for row in spark.read.parquet(target).toArrow().to_pylist()}
    assert {name: row["a"] for name, row in rows.items() if row["a"] is not None} == TEXTS
    assert {name: row["n"] for name, row in rows.items() if row["n"] is not None} == numbers
    over = {name: json.loads(row[OVERFLOW])["over"] for name, row in rows.items() if row[OVERFLOW]}
    assert over == {name: json.dumps([text]) for name, text in TEXTS.items()}
    assert {row["period_reference"] for row in rows.values()} == {"2026-01"}


def test_no_payload_kills_the_job_and_each_broken_one_is_named(spark: SparkSession) -> None:
    payloads: dict[str, str | None] = {
        "NUL": "\x00",
        "bomb": '{"a":' * 100_000,
        "null": None,
        "surrogate": '{"a":"\\ud800"}',
        "keys": json.dumps({f"k{number}": number for number in range(10_000)}),
        "cut off": '{"a":"' + "x" * 20_000_000,
    }
    frame = raw(spark, payloads)
    bad_bytes = frame.limit(1).withColumns(
        {"message_id": F.lit("bytes"), "json_payload": F.expr("cast(X'7BFF7D' as string)")}
    )
    found = frame.unionByName(bad_bytes).mapInArrow(faults, from_arrow_schema(FAULTS))
    rows = found.drop("json_payload").toArrow().to_pylist()
    assert {row["message_id"]: row["code"] for row in rows} == {
        "NUL": "MALFORMED",
        "bomb": "TOO_DEEP",
        "null": "EMPTY",
        "surrogate": "BAD_UNICODE",
        "cut off": "CUT_OFF",
        "bytes": "BAD_UNICODE",
    }
    kept = found.where("message_id = 'bytes'").select(F.hex("json_payload").alias("hex"))
    assert kept.collect()[0]["hex"] == "7BFF7D"
