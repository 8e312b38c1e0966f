"""The words of the batch protocol: what a hop is, what it is given, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Protocol
from uuid import uuid4

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lean_ops.aws import lake, table_files
from lean_ops.aws.checkpoints import Checkpoints, State
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.batch_plan import BatchPlan, ErrorSelection, Hop
from lean_ops.batch.next_batch import Decision, Facts, Volume, decide
from lean_ops.batch.steps import Steps
from lean_ops.config.topics import TopicSpec
from lean_ops.tables import TableSpec
from spark_jobs.iceberg import IcebergTable


@dataclass(frozen=True)
class Ports:
    """What the protocol asks of the world outside Spark."""

    catalog: Catalog
    leases: Leases
    checkpoints: Checkpoints
    outbox: Outbox
    secrets: Secrets
    steps: Steps
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    new_owner: Callable[[], str] = lambda: uuid4().hex


@dataclass(frozen=True)
class PublishedBatch:
    """A batch whose rows are visible, perhaps since an earlier run that was cut off."""

    plan: BatchPlan
    source: Table
    days: tuple[date, ...]


@dataclass(frozen=True)
class OpenBatch:
    """A batch under way: its plan, its branch, and the target's head that the branch began at."""

    plan: BatchPlan
    source: IcebergTable
    target: IcebergTable
    branch: str
    head: int
    days: tuple[date, ...]
    rows: int
    bytes: int
    columns: str | None

    def append(self, table: Table, files: Sequence[DataFile], deletes: Sequence[DataFile] = ()) -> None:
        """Append files to the branch, and let rows leave it, in one commit that carries the batch's token."""
        branch = table.metadata.refs.get(self.branch)
        if branch is None or branch.snapshot_id != self.head:
            raise self.target.refused()
        try:
            table_files.append(table, files, self.plan.token.summary(), branch=self.branch, deletes=deletes)
        except CommitFailedException as error:
            raise self.target.refused() from error


class BatchBooks(Protocol):
    """What was counted from the tables of a batch."""

    def check(self, batch_id: str, offenders: Callable[[], list[str]]) -> None:
        """Stop the batch unless it balances."""

    def as_dict(self) -> dict[str, int]:
        """Every count and fingerprint by its name; `source_rows` is among them."""


@dataclass(frozen=True)
class Staged:
    """What a hop wrote to the branch: the books counted from tables, and what it noticed on the way."""

    books: BatchBooks
    offenders: Callable[[], list[str]]
    snapshot: int
    counts: dict[str, int]
    drift: tuple[dict[str, object], ...]
    warnings: tuple[str, ...]
    columns: str | None = None
    alerts: tuple[str, ...] = ()


class Work(Protocol):
    """One hop of one topic: its tables, its contract, and how a range becomes rows on a branch."""

    hop: Hop
    topic: TopicSpec
    source: tuple[str, str]
    target: tuple[str, str]
    contract_version: str
    contract_sha256: str
    pii_key_id: str | None
    tables: tuple[TableSpec, ...]
    selection: ErrorSelection | None

    def decide(self, source: Table, target: Table, state: State, bite: Volume) -> Decision:
        """What to do next."""

    def extent(self, source: Table, target: Table, plan: BatchPlan) -> Mapping[date, Volume]:
        """How much a plan reads, by publish day."""

    def stage(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Staged:
        """Write the batch to its branch, and count it."""

    def settle(self, batch: PublishedBatch, ports: Ports) -> None:
        """What else follows from a batch that is visible. Done again, it changes nothing."""


class ReadsSnapshots:
    """A hop that reads what was appended to its source."""

    def decide(self, source: Table, target: Table, state: State, bite: Volume) -> Decision:
        facts = Facts(
            snapshots=lake.ancestry(source),
            token=lake.newest_token(target),
            target_whole=lake.is_whole(target),
            checkpoint=state.checkpoint.snapshot_id if state.checkpoint else None,
            open_plan=state.open_plan,
            bite=bite,
        )
        return decide(facts, partial(lake.day_volumes, source))

    def extent(self, source: Table, target: Table, plan: BatchPlan) -> Mapping[date, Volume]:  # noqa: ARG002
        volumes = lake.day_volumes(source, plan.start_snapshot, plan.end_snapshot)
        return {day: volume for day, volume in volumes.items() if plan.takes(day)}

    def settle(self, batch: PublishedBatch, ports: Ports) -> None:
        """Nothing."""
