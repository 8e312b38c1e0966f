"""Where Spark jobs run: one operator per engine, chosen by the topic or its environment."""

from __future__ import annotations

from dags.factory.engines.emr_serverless import EmrServerlessJob
from dags.factory.engines.glue import GlueJob
from dags.factory.engines.local import LocalEngineJob
from dags.factory.spark_job import SparkJob
from lean_ops.config.topics import EngineKind

ENGINES: dict[EngineKind, type[SparkJob]] = {
    "local": LocalEngineJob,
    "glue": GlueJob,
    "emr_serverless": EmrServerlessJob,
}
