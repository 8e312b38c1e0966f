"""The batch protocol: how a hop moves a range of its source into its target exactly once.

    lease ─▶ decide ─▶ plan ─▶ branch ─▶ stage ─▶ audit ─▶ prepare ─▶ publish ─▶ settle
                │                                                                  ▲
                └── an open plan that is published already: only settle is left ───┘

Whatever dies, the next run ends in the same tables: before `publish` nothing is visible and the plan is done
again; `publish` is one atomic commit, refused when the table has moved; after it the token in the table's own
history says that the batch is done. A fault of the data puts the plan on hold until a person accepts it, or its
contract or topic file has changed. docs/batch-protocol.md has the failure table.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lean_ops.aws import lake
from lean_ops.aws.checkpoints import Hold, State
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Lease
from lean_ops.batch.batch_plan import BatchPlan, BatchSettings, SourceRange, spec_sha256
from lean_ops.batch.batch_result import BatchResult, PreparedResult
from lean_ops.batch.next_batch import Finish, Read, Refused, Replay, Volume
from lean_ops.errors import DataFaultError
from spark_jobs.iceberg import BRANCH_PREFIX, IcebergTable
from spark_jobs.work import OpenBatch, Ports, PublishedBatch, Staged, Work

BITE = Volume(records=2_000_000, bytes=512 * 1024 * 1024)


class HeldError(DataFaultError):
    """A batch waits for a decision: nothing of its hop runs before."""


def run_batch(spark: SparkSession, work: Work, ports: Ports, bite: Volume = BITE) -> BatchResult | None:
    """Do the next batch of a hop, or finish one that was cut off. None when nothing is new."""
    steps, topic = ports.steps, work.topic.topic
    steps.about(topic=topic, hop=work.hop)
    with ExitStack() as held:
        with steps("acquire_lease"):
            lease = held.enter_context(Lease(ports.leases, topic, ports.new_owner()))
        steps.guard(lease.check)
        with steps("ensure_tables"):
            for spec in work.tables:
                ensure_table(ports.catalog, spec)
        with steps("read_state"):
            state = ports.checkpoints.load(topic, work.hop)
        with steps("decide"):
            source, target = ports.catalog.load_table(work.source), ports.catalog.load_table(work.target)
            decision = work.decide(source, target, state, bite)
        run = _Run(spark, work, ports, lease, source, target)
        if state.hold is not None:
            _reconsider(run, state.hold)
        match decision:
            case Refused(snapshot):
                raise DataFaultError(
                    f"{'.'.join(work.source)}: snapshot {snapshot.snapshot_id} is of kind {snapshot.operation!r}, "
                    "which no incremental read delivers",
                    next_step="find out who wrote it: nothing is read on until the table is as it was before",
                    topic=topic,
                    snapshot_id=snapshot.snapshot_id,
                )
            case Finish(plan):
                steps.about(batch_id=plan.batch_id)
                return _settle(run, plan, _prepared(state, plan))
            case Replay(plan):
                return _execute(run, plan, state.columns)
            case Read(source_range):
                _discard(run, state.open_plan)
                plan = _plan(run, source_range)
                with steps("open_plan"):
                    ports.checkpoints.open_plan(lease.claim, plan)
                return _execute(run, plan, state.columns)
        _discard(run, state.open_plan)
        return None


@dataclass(frozen=True)
class _Run:
    """One run that holds the lease, and the tables as they were when it decided what to do."""

    spark: SparkSession
    work: Work
    ports: Ports
    lease: Lease
    source: Table
    target: Table


def _reconsider(run: _Run, held: Hold) -> None:
    """A held batch waits on, unless what it was held under has changed: then its rows are planned anew."""
    work, batch_id = run.work, held.plan.batch_id
    if held.concerns(work.contract_sha256, spec_sha256(work.topic)):
        raise HeldError(
            f"batch {batch_id} is held since {held.held_at:%Y-%m-%d %H:%M}: {held.message}",
            next_step=f'deploy a mended contract, or: lean-ops batch accept {batch_id} --reason "…"',
            topic=work.topic.topic,
            batch_id=batch_id,
        )
    with run.ports.steps("release_hold"):
        run.ports.checkpoints.release(run.lease.claim, held)


def _plan(run: _Run, source_range: SourceRange) -> BatchPlan:
    work = run.work
    return BatchPlan(
        **source_range.model_dump(),
        hop=work.hop,
        topic=work.topic.topic,
        source_table=".".join(work.source),
        contract_version=work.contract_version,
        contract_sha256=work.contract_sha256,
        spec_sha256=spec_sha256(work.topic),
        settings=BatchSettings.of(work.topic),
        pii_key_id=work.pii_key_id,
        batch_time=run.ports.clock(),
        last_column_id=lake.last_published_column(run.target),
        selection=work.selection,
    )


def _execute(run: _Run, plan: BatchPlan, columns: str | None) -> BatchResult:
    ports, steps = run.ports, run.ports.steps
    steps.about(batch_id=plan.batch_id)
    with steps("open_branch"):
        batch = _open(run, plan, columns)
    try:
        staged = run.work.stage(run.spark, batch, ports)
        staged.books.check(plan.batch_id, staged.offenders)
    except DataFaultError as error:
        with steps("hold"):
            ports.checkpoints.hold(run.lease.claim, plan, error, ports.clock())
        raise
    prepared = _prepare(ports, run.lease, plan, staged)
    with steps("publish"):
        batch.target.publish(batch.branch)
    return _settle(run, plan, prepared)


def _open(run: _Run, plan: BatchPlan, columns: str | None) -> OpenBatch:
    taken = run.work.extent(run.source, run.target, plan)
    volume = sum(taken.values(), start=Volume())
    batch = OpenBatch(
        plan=plan,
        source=IcebergTable(run.spark, run.work.source),
        target=IcebergTable(run.spark, run.work.target),
        # A name of its own: whoever still writes to the branch of an earlier attempt cannot touch this one.
        branch=f"{BRANCH_PREFIX}{run.lease.claim.owner}",
        head=lake.head(run.target),
        days=tuple(sorted(taken)),
        rows=volume.records,
        bytes=volume.bytes,
        columns=columns,
    )
    # At the head that the decision was made on: if main is elsewhere by now, nothing can be published.
    batch.target.open_branch(batch.branch, batch.head)
    return batch


def _prepare(ports: Ports, lease: Lease, plan: BatchPlan, staged: Staged) -> PreparedResult:
    books = staged.books.as_dict()
    result = BatchResult.of(
        plan,
        published_snapshot=staged.snapshot,
        counts=staged.counts | {name: value for name, value in books.items() if "fingerprint" not in name},
        fingerprints={name: str(value) for name, value in books.items() if "fingerprint" in name},
        drift=staged.drift,
        warnings=(*staged.warnings, *([f"accepted: {plan.accepted}"] if plan.accepted else [])),
        alerts=staged.alerts,
        seconds=dict(ports.steps.seconds),
    )
    prepared = PreparedResult(result=result, columns=staged.columns)
    with ports.steps("prepare"):
        ports.checkpoints.prepare_result(lease.claim, plan, prepared.model_dump_json())
    return prepared


def _settle(run: _Run, plan: BatchPlan, prepared: PreparedResult) -> BatchResult:
    """The batch is visible: what follows from it, the run history, then the checkpoint, which closes the plan."""
    ports = run.ports
    with ports.steps("settle"):
        days = tuple(sorted(run.work.extent(run.source, run.target, plan)))
        run.work.settle(PublishedBatch(plan, run.source, days), ports)
    with ports.steps("outbox"):
        ports.outbox.put(prepared.result)
    with ports.steps("close_plan"):
        ports.checkpoints.close(
            run.lease.claim,
            plan,
            records=prepared.result.counts["source_rows"],
            columns=prepared.columns,
            now=ports.clock(),
        )
    return prepared.result


def _prepared(state: State, plan: BatchPlan) -> PreparedResult:
    if state.prepared_result is None:
        raise LookupError(f"batch {plan.batch_id} is published, but its result was never prepared")
    return PreparedResult.model_validate_json(state.prepared_result)


def _discard(run: _Run, plan: BatchPlan | None) -> None:
    if plan is not None:
        with run.ports.steps("discard_plan"):
            run.ports.checkpoints.discard(run.lease.claim, plan)
