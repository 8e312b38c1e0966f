"""Standardized rows into Curated, whichever job brings them.

Invalid records to `errors`; of the others the keys are looked up in all history, and on the batch's branch rows
that change are replaced and keys that are new get one; then it is counted from the tables where each record is.
"""

from __future__ import annotations

from collections.abc import Callable

from lean_ops.batch.thresholds import Verdict
from spark_jobs.curation import Curation
from spark_jobs.messages import DRIVER_BYTES
from spark_jobs.records import Records
from spark_jobs.work import Staged

# Stops a batch before anything of it is written, or says what should be heard about it.
Judge = Callable[[Verdict], tuple[str, ...]]


def stage(curation: Curation, judge: Judge, driver_rows: int) -> Staged:
    """Write the batch to its branch, and count it."""
    steps, batch = curation.ports.steps, curation.batch
    with steps("look_up"):
        few = batch.rows <= driver_rows and batch.bytes <= DRIVER_BYTES
        records = Records.of(curation, few=few)
    with steps("validate"):
        verdict = records.take()
    alerts = judge(verdict)
    with steps("write_errors"):
        if verdict.invalid:
            curation.errors.append(records.invalid())
    with steps("merge"):
        deletes = records.merge()
    with steps("write_rows"):
        batch.append(curation.curated, records.files, deletes)
    with steps("audit"):
        snapshot = batch.target.staged(batch.branch, batch.head)
        books, ledger = records.audit(snapshot)
    return Staged(
        books=books,
        offenders=ledger.offenders,
        snapshot=snapshot,
        counts={"invalid_rows": verdict.invalid, "cde_violations": verdict.cde_violations},
        drift=(),
        warnings=(),
        alerts=alerts,
    )
