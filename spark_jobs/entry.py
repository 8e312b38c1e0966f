"""How a job starts: arguments from argv, the environment from variables, one JSON result on stdout."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, cast

from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from lean_ops import runtime as runtimes
from lean_ops.aws.as_of import CatalogAsOf
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.checkpoints import Checkpoints
from lean_ops.aws.clients import client
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.patience import dependency
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.batch_plan import Hop
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.job import JobArguments, JobFailure, JobResult, failure_of
from lean_ops.batch.next_batch import Volume
from lean_ops.batch.steps import Steps, log_line
from lean_ops.runtime import Runtime
from spark_jobs import passing_faults
from spark_jobs.protocol import run_batch
from spark_jobs.session import build_session
from spark_jobs.work import Ports, Work

WorkOf = Callable[[JobArguments, SchemaStore, Runtime], Work]
Log = Callable[[dict[str, Any]], None]


def main(hop: Hop, work_of: WorkOf, argv: Sequence[str]) -> int:
    """Run a job as a process of its own; the exit code says whether it succeeded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arguments", required=True, help="JobArguments as JSON")
    parser.add_argument("--environment", help="the environment as JSON, where no variable can hand it down")
    parser.add_argument("--result", help="key in the ops bucket for the result, where nobody reads stdout")
    # Engines add words of their own.
    options, _ = parser.parse_known_args(argv)
    arguments = JobArguments.model_validate_json(options.arguments)
    handed = {runtimes.ENVIRONMENT_VARIABLE: options.environment} if options.environment else {}
    runtime = runtimes.from_variables(os.environ | handed)
    spark = build_session(runtime)
    try:
        result = run_job(spark, hop, work_of, arguments, runtime)
    finally:
        spark.stop()
    answer = result.model_dump_json()
    if options.result:
        s3 = client(runtime, "s3")
        s3.put_object(Bucket=runtime.names.ops_bucket, Key=options.result, Body=answer.encode())
    sys.stdout.write(answer + "\n")
    return 0 if result.failure is None else 1


def run_job(
    spark: SparkSession,
    hop: Hop,
    work_of: WorkOf,
    arguments: JobArguments,
    runtime: Runtime,
    *,
    log: Log = log_line,
) -> JobResult:
    """Batch after batch until the hop has caught up. What was published before a failure is part of the answer."""
    bite = Volume(arguments.bite_records, arguments.bite_bytes)
    done: list[BatchResult] = []
    failure: JobFailure | None = None
    caught_up = False
    topic = arguments.topic
    try:
        with dependency(), passing_faults.retryable():
            work = work_of(arguments, SchemaStore(client(runtime, "s3"), runtime.names), runtime)
            while not caught_up and len(done) < arguments.max_batches:
                batch = run_batch(spark, work, ports(runtime, work, arguments, log), bite)
                caught_up = batch is None
                done += [batch] if batch is not None else []
    except Exception as error:  # noqa: BLE001 - the answer names every failure, of whatever kind
        log({"step": "job", "failed": type(error).__name__, "traceback": traceback.format_exc()})
        failure = failure_of(error)
    return JobResult(topic=topic.topic, hop=hop, caught_up=caught_up, batches=tuple(done), failure=failure)


def ports(runtime: Runtime, work: Work, arguments: JobArguments, log: Log) -> Ports:
    """The protocol's ports in an environment."""
    dynamodb, names = client(runtime, "dynamodb"), runtime.names
    leases = Leases(dynamodb, names)
    catalog = open_catalog(runtime.environment, runtime.home)
    if arguments.until_snapshot is not None:
        catalog = cast(Catalog, CatalogAsOf(catalog, work.source, arguments.until_snapshot))
    return Ports(
        catalog=catalog,
        leases=leases,
        checkpoints=Checkpoints(dynamodb, names, leases),
        outbox=Outbox(dynamodb, names),
        secrets=Secrets(client(runtime, "secretsmanager"), names),
        steps=Steps(log),
    )
