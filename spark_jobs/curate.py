"""Standardized → Curated: typed and governed, one row per key at any delay.

Invariant: every record of the range is current in Curated, superseded there by a greater version of its key, or
an open error; and Curated depends on the set of valid records only, not on their order, delay or batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import SparkSession

from lean_ops import naming, tables
from lean_ops.aws import row_filters, rows
from lean_ops.aws.record_errors import IDENTITY, ErrorLog
from lean_ops.aws.schema_store import SchemaStore, StoredContract
from lean_ops.batch.batch_plan import BatchPlan, ErrorSelection, Hop
from lean_ops.batch.job import JobArguments
from lean_ops.batch.thresholds import Verdict
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.spec import ContractSpec
from lean_ops.runtime import Runtime
from lean_ops.tables import TableSpec
from spark_jobs.curated_stage import stage
from spark_jobs.curation import Curation, RecordFiles
from spark_jobs.entry import main
from spark_jobs.identities import Mask
from spark_jobs.messages import DRIVER_ROWS
from spark_jobs.source import Source
from spark_jobs.work import OpenBatch, Ports, PublishedBatch, ReadsSnapshots, Staged


@dataclass(frozen=True)
class Curate(ReadsSnapshots):
    """The second hop of a topic."""

    topic: TopicSpec
    active: StoredContract
    contracts: SchemaStore
    pii_key_id: str | None
    driver_rows: int = DRIVER_ROWS
    hop: Hop = "curate"
    selection: ErrorSelection | None = None

    @property
    def contract_version(self) -> str:
        return self.active.contract.version

    @property
    def contract_sha256(self) -> str:
        return self.active.sha256

    @property
    def source(self) -> tuple[str, str]:
        return naming.standardized_table(self.topic.topic)

    @property
    def target(self) -> tuple[str, str]:
        return naming.curated_table(self.topic.topic)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        topic = self.topic
        curated = tables.curated(topic.topic, self.active.contract, topic.curated.partitioning)
        return tables.standardized(topic.topic), curated, tables.ERRORS

    def contract(self, plan: BatchPlan) -> ContractSpec:
        """The contract that the plan was made with, whatever is active by now."""
        if plan.contract_sha256 == self.active.sha256:
            return self.active.contract
        pinned = self.contracts.pinned(plan.topic, plan.contract_version, plan.contract_sha256)
        return pinned.contract

    def errors(self, plan: BatchPlan, days: Sequence[date], catalog: Catalog) -> ErrorLog:
        """The attempts at the records of a batch."""
        return ErrorLog(catalog, plan, days)

    def origin(self, batch: OpenBatch, log: ErrorLog) -> RecordFiles:  # noqa: ARG002
        """Where the records of a batch are."""
        return Appended(batch.plan, batch.days)

    def curation(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Curation:
        """The batch under its contract and its key."""
        contract = self.contract(batch.plan)
        personal = any(column.pii for column in contract.payload_columns)
        key = ports.secrets.pii_key(batch.plan.pii_key_id) if personal else None
        errors = self.errors(batch.plan, batch.days, ports.catalog)
        return Curation(spark, batch, ports, contract, key, errors, self.origin(batch, errors))

    def stage(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Staged:
        plan = batch.plan

        def judge(verdict: Verdict) -> tuple[str, ...]:
            if plan.accepted is None:
                verdict.check(plan.settings.quality, topic=plan.topic, batch_id=plan.batch_id)
            return verdict.alerts(plan.settings.quality, plan.topic)

        with ports.steps("read_rules"):
            curation = self.curation(spark, batch, ports)
        return stage(curation, judge, self.driver_rows)

    def settle(self, batch: PublishedBatch, ports: Ports) -> None:
        """Records of the range that had failed before and are valid now are open no longer."""
        log = self.errors(batch.plan, batch.days, ports.catalog)
        log.resolve(lambda: Appended(batch.plan, batch.days).identities(batch.source))


@dataclass(frozen=True)
class Appended:
    """The records of a plan's range."""

    plan: BatchPlan
    days: Sequence[date]

    @property
    def where(self) -> BooleanExpression:
        return row_filters.published_on(self.days)

    def files(self, standardized: Table) -> Iterator[FileScanTask]:
        return rows.files(standardized, self.plan.start_snapshot, self.plan.end_snapshot, self.where)

    def own(self, found: pa.Table) -> Mask:
        """All of them."""
        return np.ones(len(found), np.bool_)

    def identities(self, standardized: Table) -> pa.Table:
        return Source.of(standardized, self.where).read(self.files(standardized), IDENTITY)


def curate(arguments: JobArguments, contracts: SchemaStore, runtime: Runtime) -> Curate:
    """The hop of a topic under its active contract."""
    active = contracts.active(arguments.topic.topic)
    return Curate(arguments.topic, active, contracts, runtime.environment.pii_key_id)


if __name__ == "__main__":
    sys.exit(main("curate", curate, sys.argv[1:]))
