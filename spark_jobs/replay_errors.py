"""Open errors once more, under the active contract: what is valid now merges into Curated, the rest says why not.

Invariant: a record is resolved only after it is visible in Curated, or superseded there. So whatever is lost on
the way, a record is open or accounted for, and replaying it again changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table
from pyspark.sql import SparkSession

from lean_ops import tables
from lean_ops.aws import lake, row_filters, rows
from lean_ops.aws.checkpoints import State
from lean_ops.aws.open_errors import by_day, lost_replays, open_errors
from lean_ops.aws.record_errors import IDENTITY, ErrorLog
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.aws.table_files import TableFiles
from lean_ops.batch.batch_plan import BatchPlan, ErrorSelection, Hop, SourceRange
from lean_ops.batch.job import JobArguments
from lean_ops.batch.next_batch import Decision, Finish, NothingNew, Read, Replay, Volume, bite_of_days
from lean_ops.batch.thresholds import Verdict
from lean_ops.errors import DataFaultError
from lean_ops.runtime import Runtime
from spark_jobs.curate import Curate
from spark_jobs.curated_stage import stage
from spark_jobs.curation import RecordFiles
from spark_jobs.entry import main
from spark_jobs.identities import Mask, marked, numbered
from spark_jobs.pieces import InThreads
from spark_jobs.work import OpenBatch, Ports, PublishedBatch, Staged


@dataclass(frozen=True)
class ReplayErrors(Curate):
    """The open errors of a topic that were last tried before `asked_at`."""

    hop: Hop = "replay"
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def source(self) -> tuple[str, str]:
        return tables.ERRORS.identifier

    def decide(self, source: Table, target: Table, state: State, bite: Volume) -> Decision:
        plan, token = state.open_plan, lake.newest_token(target, replay=True)
        if plan is not None and token is not None and plan.batch_id == token.batch_id:
            return Finish(plan)
        if plan is not None and source.snapshot_by_id(plan.end_snapshot) is not None:
            return Replay(plan)
        lost = lost_replays(source, target, self.topic.topic)
        found = open_errors(source, self.topic.topic, self.selection, lost=lost)
        waiting = by_day(each for each in found if each.detected_at < self.asked_at)
        everything = SourceRange(start_snapshot=None, end_snapshot=lake.head(source), reason="first_read")
        some = bite_of_days(everything, waiting, bite)
        return NothingNew() if some is None else Read(some)

    def extent(self, source: Table, target: Table, plan: BatchPlan) -> Mapping[date, Volume]:
        lost = lost_replays(source, target, plan.topic)
        chosen = open_errors(source, plan.topic, plan.selection, plan.end_snapshot, lost)
        return {day: volume for day, volume in by_day(chosen).items() if plan.takes(day)}

    def stage(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Staged:
        with ports.steps("read_rules"):
            curation = self.curation(spark, batch, ports)

        def judge(verdict: Verdict) -> tuple[str, ...]:
            asked = len(_chosen(curation.errors))
            if verdict.records != asked and batch.plan.accepted is None:
                raise DataFaultError(
                    f"{asked - verdict.records} of {asked} open errors have no row in Standardized any more",
                    next_step="was Standardized rolled back? Then run the first hop, and replay again",
                    topic=batch.plan.topic,
                    batch_id=batch.plan.batch_id,
                )
            return ()

        return stage(curation, judge, self.driver_rows)

    def origin(self, batch: OpenBatch, log: ErrorLog) -> RecordFiles:  # noqa: ARG002
        return Failed(log)

    def settle(self, batch: PublishedBatch, ports: Ports) -> None:
        log = self.errors(batch.plan, batch.days, ports.catalog)
        log.resolve(lambda: _chosen(log))

    def errors(self, plan: BatchPlan, days: Sequence[date], catalog: Catalog) -> ErrorLog:
        errors, curated = catalog.load_table(self.source), catalog.load_table(self.target)
        return ErrorLog(catalog, plan, days, lost_replays(errors, curated, plan.topic))


def _chosen(log: ErrorLog) -> pa.Table:
    """The errors that the plan takes."""
    plan, asked = log.plan, log.plan.selection or ErrorSelection()
    latest = log.latest(snapshot=plan.end_snapshot)
    chosen = latest.filter(log.is_open(latest))
    if asked.error_code is not None:
        chosen = chosen.filter(pc.equal(chosen["error_code"], asked.error_code))
    if asked.since is not None:
        chosen = chosen.filter(pc.greater_equal(chosen["detected_at"], pa.scalar(asked.since)))
    return chosen.select(IDENTITY)


@dataclass(frozen=True)
class Failed:
    """The Standardized rows of the plan's errors: it is them that are valid or not, never a copy."""

    log: ErrorLog

    @cached_property
    def chosen(self) -> pa.Table:
        return _chosen(self.log)

    @property
    def where(self) -> BooleanExpression:
        return row_filters.published_on(self.log.days)

    def files(self, standardized: Table) -> list[FileScanTask]:
        """Those that hold one: errors are few, and their days may be long."""
        of, ids = TableFiles.of(standardized), self.chosen["message_id"].combine_chunks()

        def holds_one(task: FileScanTask) -> bool:
            found = of.read([task], ["message_id"], self.where)["message_id"]
            return bool(pc.any(pc.is_in(found, value_set=ids)).as_py())

        tasks = list(rows.files(standardized, None, lake.head(standardized), self.where))
        hits = InThreads()(holds_one, tasks)
        return [task for task, hit in zip(tasks, hits, strict=True) if hit]

    def own(self, found: pa.Table) -> Mask:
        """Those whose errors are chosen."""
        (mine, chosen), size = numbered(found, self.chosen)
        return marked(chosen, size)[mine]


def replay_errors(arguments: JobArguments, contracts: SchemaStore, runtime: Runtime) -> ReplayErrors:
    """The replay of a topic under its active contract."""
    return ReplayErrors(
        arguments.topic,
        contracts.active(arguments.topic.topic),
        contracts,
        runtime.environment.pii_key_id,
        selection=arguments.selection,
    )


if __name__ == "__main__":
    sys.exit(main("replay", replay_errors, sys.argv[1:]))
