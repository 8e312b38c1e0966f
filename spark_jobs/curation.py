"""Standardized rows into Curated, whichever job brings them.

Invalid records to `errors`; of the others the keys are looked up in all history: rows that change are updated,
keys that are new are appended, both on the batch's branch; then it is counted from the tables where each record is.
"""

from __future__ import annotations

from collections.abc import Callable

from lean_ops.batch.thresholds import Verdict
from spark_jobs.driver_records import DriverRecords
from spark_jobs.executor_records import ExecutorRecords
from spark_jobs.records import Curation, Records, Source
from spark_jobs.transforms.curated import KEY
from spark_jobs.work import OpenBatch, Staged

DRIVER_ROWS = 20_000
# From this many rows on, a file per task is big enough: no shuffle to gather them.
_ROWS_WORTH_A_FILE = 50_000

# Stops a batch before anything of it is written, or says what should be heard about it.
Judge = Callable[[Verdict], tuple[str, ...]]


def stage(curation: Curation, source: Source, judge: Judge, driver_rows: int) -> Staged:
    """Write the batch to its branch, and count it."""
    steps, batch = curation.ports.steps, curation.batch
    with steps("validate"):
        few = batch.rows <= driver_rows
        records: Records = (DriverRecords if few else ExecutorRecords).of(curation, source)
    alerts = judge(records.verdict)
    try:
        with steps("write_errors"):
            if records.verdict.invalid:
                curation.errors.append(records.invalid())
        with steps("look_up"):
            moves = records.look_up()
        with steps("update"):
            if moves.cases:
                among = {"period_reference": moves.periods}
                batch.target.update(
                    records.updates(), branch=batch.branch, on=KEY, among=among, cases=moves.cases
                )
        with steps("append"):
            batch.target.append(
                records.new(), batch.plan.token.summary(), branch=batch.branch, **_layout(batch)
            )
    finally:
        records.release()
    with steps("audit"):
        snapshots = batch.target.staged(batch.branch, batch.head, commits=2 if moves.cases else 1)
        audit = records.audit(snapshots)
    counts = {"invalid_rows": records.verdict.invalid, "cde_violations": records.verdict.cde_violations}
    return Staged(
        books=audit.books,
        offenders=audit.offenders,
        snapshot=snapshots[-1],
        counts=counts,
        drift=(),
        warnings=(),
        alerts=alerts,
    )


def _layout(batch: OpenBatch) -> dict[str, str]:
    if batch.rows < _ROWS_WORTH_A_FILE:
        return {"distribution-mode": "hash"}
    return {"distribution-mode": "none", "fanout-enabled": "true"}
