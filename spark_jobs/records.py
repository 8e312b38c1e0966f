"""The records of a batch on their way into Curated: on the executors, or on the driver when they are few."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from lean_ops import naming
from lean_ops.aws.record_errors import ErrorLog
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload import columns
from lean_ops.payload.columns import OVERFLOW
from spark_jobs.transforms.validation import Places
from spark_jobs.work import OpenBatch, Ports


@dataclass(frozen=True)
class Curation:
    """One batch under its contract; `key` is the PII key, when the contract has personal columns."""

    spark: SparkSession
    batch: OpenBatch
    ports: Ports
    contract: ContractSpec
    key: bytes | None
    errors: ErrorLog

    @property
    def personal(self) -> list[str]:
        return [column.name for column in self.contract.payload_columns if column.pii]

    @property
    def places(self) -> Places:
        """Where the payload's paths are in Standardized."""
        fields = self._load(naming.standardized_table(self.batch.plan.topic)).schema().fields
        registry = columns.registry((field.name, field.doc) for field in fields)
        return Places(registry.columns, OVERFLOW in {field.name for field in fields})

    @property
    def curated(self) -> Table:
        return self._load(naming.curated_table(self.batch.plan.topic))

    @property
    def curated_names(self) -> list[str]:
        """Every column that Curated has: those that the contract lacks are NULL in what it writes."""
        return [field.name for field in self.curated.schema().fields]

    def _load(self, identifier: tuple[str, str]) -> Table:
        return self.ports.catalog.load_table(identifier)


class Source(Protocol):
    """The records of a batch, where Standardized has them."""

    def frame(self) -> DataFrame:
        """For the executors."""

    def table(self, columns: Sequence[str]) -> pa.Table:
        """For this process."""


@dataclass(frozen=True)
class Moves:
    """Which rows of Curated a batch changes: per case the columns it sets, and the periods where the rows are."""

    cases: Mapping[str, Sequence[str]]
    periods: Sequence[str]


@dataclass(frozen=True)
class CuratedAudit:
    """The books of a batch, and how to name some records that do not add up."""

    books: CuratedBooks
    offenders: Callable[[], list[str]]


class Records(Protocol):
    """Validated records."""

    verdict: Verdict

    def invalid(self) -> pa.Table:
        """The invalid ones, as the error log takes them."""

    def look_up(self) -> Moves:
        """Find the batch's keys in all history."""

    def updates(self) -> DataFrame:
        """The final rows of the keys that have one already and change."""

    def new(self) -> DataFrame:
        """The rows of the keys that have none."""

    def audit(self, snapshots: Sequence[int]) -> CuratedAudit:
        """Count from the tables where each record of the batch is now."""

    def release(self) -> None:
        """Forget what was kept between the steps."""
