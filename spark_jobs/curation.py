"""One batch of the second hop: its contract, its key, the tables around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import SparkSession

from lean_ops import naming
from lean_ops.aws.record_errors import ErrorLog
from lean_ops.aws.table_files import TableFiles
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload import columns
from lean_ops.payload.columns import OVERFLOW
from spark_jobs.identities import Mask
from spark_jobs.record_tasks import Rules
from spark_jobs.transforms.validation import Places
from spark_jobs.work import OpenBatch, Ports


class RecordFiles(Protocol):
    """Where the records of a batch are."""

    where: BooleanExpression

    def files(self, standardized: Table) -> Iterable[FileScanTask]:
        """The files that hold them."""

    def own(self, found: pa.Table) -> Mask:
        """Which of the files' rows they are."""


@dataclass(frozen=True)
class Curation:
    """One batch under its contract; `key` is the PII key, when the contract has personal columns."""

    spark: SparkSession
    batch: OpenBatch
    ports: Ports
    contract: ContractSpec
    key: bytes | None = field(repr=False)
    errors: ErrorLog
    origin: RecordFiles

    @property
    def standardized(self) -> Table:
        return self.ports.catalog.load_table(naming.standardized_table(self.batch.plan.topic))

    @property
    def curated(self) -> Table:
        return self.ports.catalog.load_table(naming.curated_table(self.batch.plan.topic))

    @property
    def rules(self) -> Rules:
        fields = self.standardized.schema().fields
        registry = columns.registry((field.name, field.doc) for field in fields)
        places = Places(registry.columns, OVERFLOW in {field.name for field in fields})
        return Rules(self.contract, places, self.key, TableFiles.of(self.curated))
