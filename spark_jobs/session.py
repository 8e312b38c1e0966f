"""Builds the Spark session of an environment: the same code on a laptop, on Glue 6.0 and on EMR Serverless.

Every setting that could change a result is explicit, because the defaults differ between runtimes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lean_ops import naming
from lean_ops.aws.catalog import catalog_database, warehouse
from lean_ops.runtime import Runtime

_MEANING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.worker.reuse": "true",
    "spark.sql.adaptive.enabled": "true",
}


def build_session(runtime: Runtime, *, app: str = "lean-ops") -> SparkSession:
    """The session, with the environment's catalog as its default."""
    # Workers must be the driver's own Python: any other refuses with PYTHON_VERSION_MISMATCH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    for key, value in settings(runtime).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def settings(runtime: Runtime) -> dict[str, str]:
    """All settings of the session; the engines pass the same ones to Glue and EMR Serverless."""
    catalog = f"spark.sql.catalog.{naming.CATALOG}"
    place = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.warehouse": warehouse(runtime.environment, runtime.home),
        "spark.sql.defaultCatalog": naming.CATALOG,
        # A cached table is as old as its session's last look at it: rows were lost and doubled without an error.
        f"{catalog}.cache-enabled": "false",
    }
    if runtime.environment.catalog.kind == "sqlite":
        place |= {
            f"{catalog}.type": "jdbc",
            f"{catalog}.uri": f"jdbc:sqlite:{catalog_database(runtime.home)}",
            f"{catalog}.jdbc.schema-version": "V1",
        }
    else:
        place |= {
            f"{catalog}.type": "glue",
            f"{catalog}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{catalog}.client.region": runtime.environment.region,
        }
    if runtime.environment.emulated:
        place |= _LOCAL | {"spark.master": "local[2]", "spark.jars": ",".join(map(str, jars()))}
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        if endpoint and runtime.environment.catalog.kind == "glue":
            place |= {
                f"{catalog}.s3.endpoint": endpoint,
                f"{catalog}.glue.endpoint": endpoint,
                f"{catalog}.s3.path-style-access": "true",
                f"{catalog}.s3.access-key-id": "local",
                f"{catalog}.s3.secret-access-key": "local",
            }
    return _MEANING | place


def jars() -> list[Path]:
    """The jars of locks/jars.txt, by name: a shared cache may hold other versions beside them."""
    root = Path(__file__).resolve().parents[1]
    cache = Path(os.environ.get("LEAN_OPS_CACHE", root / ".cache")) / "jars"
    lines = (root / "locks" / "jars.txt").read_text(encoding="utf-8").splitlines()
    return [cache / line.split()[1] for line in lines if line and not line.startswith("#")]
