"""RAW → Standardized measured: against the straightforward job, against growing history, and for a small batch."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import boto3
from moto import mock_aws
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from benchmarks import seeds_way
from benchmarks.events import fill_raw
from lean_ops import naming, tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.checkpoints import Checkpoints
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.steps import Steps
from lean_ops.config.repository import Repository, load_environment, load_topic
from lean_ops.resources import STATE_TABLES
from lean_ops.runtime import Runtime
from local import moto_corrections
from spark_jobs.protocol import run_batch
from spark_jobs.session import build_session
from spark_jobs.standardize import Standardize
from spark_jobs.work import Ports, Work

Result = TypeVar("Result")
ROOT = Path(__file__).resolve().parents[1]
TOPIC = "events"
# Seven hundred partitions at once: with more rows the sorting of the insert outgrows the heap.
_FILLED_AT_ONCE = 1_000_000


@dataclass
class Bench:
    """A lake of its own with one warm Spark session, and DynamoDB emulated inside this process."""

    runtime: Runtime
    catalog: Catalog
    dynamodb: Any
    spark: SparkSession

    @classmethod
    def start(cls, home: Path) -> Bench:
        moto_corrections.apply()
        mock_aws().start()
        environment = load_environment(Repository(ROOT), "local")
        runtime = Runtime(environment, home)
        dynamodb = boto3.client("dynamodb", region_name=environment.region)
        for table in STATE_TABLES:
            keys = [(table.partition_key, "HASH"), *([(table.sort_key, "RANGE")] if table.sort_key else [])]
            dynamodb.create_table(
                TableName=environment.names.state_table(table.name),
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
                BillingMode="PAY_PER_REQUEST",
            )
        catalog = open_catalog(environment, home)
        for spec in (*tables.SHARED_TABLES, tables.raw(TOPIC), tables.standardized(TOPIC)):
            ensure_table(catalog, spec)
        spark = build_session(runtime, app="benchmark")
        spark.sparkContext.setLogLevel("ERROR")
        return cls(runtime, catalog, dynamodb, spark)

    def clear(self, *, raw: bool = True) -> None:
        """Tables and state as on the first day; RAW too, unless it is to be read again."""
        specs = (tables.standardized(TOPIC), tables.PARSE_ERRORS, *([tables.raw(TOPIC)] if raw else []))
        for spec in specs:
            self.catalog.drop_table(spec.identifier)
            ensure_table(self.catalog, spec)
        names = self.runtime.names
        for pipeline, kinds in (
            ("standardization", ("raw", "plan", "columns")),
            ("curation", ("standardized", "plan")),
        ):
            for kind in kinds:
                key = {"pipeline_id": {"S": f"{pipeline}_{TOPIC}"}, "checkpoint_type": {"S": kind}}
                self.dynamodb.delete_item(TableName=names.state_table("checkpoints"), Key=key)
        self.spark.catalog.clearCache()

    def send(self, count: int, *, commits: int = 1, **options: Any) -> int:
        """Put events into RAW; returns the bytes of their payloads."""
        raw = self.catalog.load_table(naming.raw_table(TOPIC))
        return fill_raw(raw, count, commits=commits, **options)

    def standardize(self) -> tuple[BatchResult, float]:
        """One batch of ours, and its seconds."""
        return self.run(Standardize(load_topic(Repository(ROOT), TOPIC), "1.0", "0" * 64))

    def run(self, work: Work) -> tuple[BatchResult, float]:
        """One batch of a hop, and its seconds."""
        names, leases = self.runtime.names, Leases(self.dynamodb, self.runtime.names)
        ports = Ports(
            catalog=self.catalog,
            leases=leases,
            checkpoints=Checkpoints(self.dynamodb, names, leases),
            outbox=Outbox(self.dynamodb, names),
            secrets=Secrets(
                boto3.client("secretsmanager", region_name=self.runtime.environment.region), names
            ),
            steps=Steps(log=lambda _: None),
        )
        result, seconds = timed(lambda: run_batch(self.spark, work, ports))
        if result is None:
            raise RuntimeError("there was nothing to do")
        return result, seconds

    def seeds_way(self) -> float:
        """The straightforward job over the same RAW, into tables of its own; its seconds."""
        names = ", ".join(
            f"{column.name} {_SPARK_TYPES[column.type]}" for column in tables.STANDARDIZED_COLUMNS
        )
        places = {
            "baseline": f"({names}) using iceberg partitioned by (period_reference, days(publish_time))",
            "baseline_errors": f"({_ERROR_COLUMNS}) using iceberg",
        }
        for table, columns in places.items():
            self.spark.sql(f"drop table if exists ops_db.{table}")
            self.spark.sql(f"create table ops_db.{table} {columns}")
        raw = ".".join(naming.raw_table(TOPIC))
        self.spark.sql(f"refresh table {raw}")
        _, seconds = timed(
            lambda: seeds_way.standardize(self.spark, raw, "ops_db.baseline", "ops_db.baseline_errors")
        )
        return seconds

    def history(self, rows: int, offset: int = 0) -> None:
        """Standardized rows over the 24 months before the events, without going through RAW."""
        target = ".".join(naming.standardized_table(TOPIC))
        names = "message_id, topic_name, publish_time, ingestion_ts, idempotency_key, period_reference"
        for first in range(offset, offset + rows, _FILLED_AT_ONCE):
            last = min(first + _FILLED_AT_ONCE, offset + rows)
            self.spark.sql(f"""
                insert into {target} ({names})
                select concat('history-', id), '{TOPIC}', moment, id, concat('old-', id),
                    date_format(moment, 'yyyy-MM')
                from (select id, timestamp_seconds(1704067200 + (id % 730) * 86400 + id % 86400) as moment
                      from range({first}, {last}))
            """)


_ERROR_COLUMNS = "message_id string, publish_time timestamp, ingestion_ts bigint, json_payload string"
_SPARK_TYPES = {"string": "string", "timestamptz": "timestamp", "long": "bigint"}


def peak_driver_gb(spark: SparkSession) -> float:
    """The most memory that the JVM of the driver and this process ever held."""
    pid = int(spark._jvm.ProcessHandle.current().pid())
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    jvm = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return (jvm + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024**2


def peak_of_ours_alone(home: Path) -> float:
    """What a process holds that standardizes the RAW of a lake anew and does nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.standardize", str(home)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.monotonic()
    result = work()
    return result, time.monotonic() - started


if __name__ == "__main__":
    alone = Bench.start(Path(sys.argv[1]))
    alone.clear(raw=False)
    alone.standardize()
    print(peak_driver_gb(alone.spark))
    alone.spark.stop()
