"""RAW → Standardized: each message once, its payload flattened to text columns, nothing lost and nothing guessed.

Invariant: every distinct message of the range ends in Standardized or in parse_errors, and in one of them only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lean_ops import naming, tables
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.batch.accounting import Books
from lean_ops.batch.batch_plan import ErrorSelection, Hop
from lean_ops.batch.job import JobArguments
from lean_ops.config.topics import TopicSpec
from lean_ops.runtime import Runtime
from lean_ops.tables import TableSpec
from spark_jobs.entry import main
from spark_jobs.evolution import Evolution
from spark_jobs.messages import DRIVER_ROWS, Messages
from spark_jobs.transforms.discovery import NOTHING, Discovered
from spark_jobs.work import OpenBatch, Ports, ReadsSnapshots, Staged


@dataclass(frozen=True)
class Standardize(ReadsSnapshots):
    """The first hop of a topic."""

    topic: TopicSpec
    contract_version: str
    contract_sha256: str
    pii_key_id: str | None = None
    driver_rows: int = DRIVER_ROWS
    hop: Hop = "standardize"
    selection: ErrorSelection | None = None

    @property
    def source(self) -> tuple[str, str]:
        return naming.raw_table(self.topic.topic)

    @property
    def target(self) -> tuple[str, str]:
        return naming.standardized_table(self.topic.topic)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return tables.standardized(self.topic.topic), tables.PARSE_ERRORS

    def stage(self, spark: SparkSession, batch: OpenBatch, ports: Ports) -> Staged:
        """Faulty messages to parse_errors, the others to the branch; then both are counted back."""
        steps = ports.steps
        with steps("find_duplicates"):
            evolution = Evolution.of(ports.catalog, batch.plan, batch.columns)
            messages = Messages.of(spark, ports.catalog, batch, self.driver_rows)
        if batch.plan.settings.standardized_lifo == "batch":
            with steps("find_superseded"):
                messages.find_superseded(evolution.shape(NOTHING))
        learned = NOTHING
        if evolution.is_blank:
            with steps("learn"):
                learned = messages.learn(evolution.shape(NOTHING))
                evolution = evolution.evolved(ports.catalog, learned)
        with steps("take_apart"):
            found = messages.take_apart(evolution.shape(learned))
        with steps("evolve"):
            evolution = evolution.evolved(ports.catalog, found)
        with steps("take_rest"):
            messages.take_rest(evolution.shape(found))
        with steps("write_errors"):
            if found.faults:
                messages.write_faults()
        with steps("write_rows"):
            messages.write_rows()
        with steps("audit"):
            snapshot = batch.target.staged(batch.branch, batch.head)
            audit = messages.audit(snapshot)
        with steps("find_conflicts"):
            conflicting = messages.conflicting()
        remembered, events = evolution.observed(found)
        return Staged(
            books=audit.books,
            offenders=audit.offenders,
            snapshot=snapshot,
            counts=_counts(audit.books, conflicting, found),
            drift=events,
            warnings=_warnings(conflicting, found),
            columns=remembered,
        )


def _counts(counted: Books, conflicting: int, found: Discovered) -> dict[str, int]:
    return {
        "redelivered_rows": counted.redelivered_rows,
        "conflicting_rows": conflicting,
        "nonsense_periods": found.nonsense_periods,
        **{f"fault_{code.lower()}": count for code, count in sorted(found.faults.items())},
    }


def _warnings(conflicting: int, found: Discovered) -> tuple[str, ...]:
    notes = (
        (conflicting, f"{conflicting} redeliveries differ from the first arrival of their message"),
        (found.nonsense_periods, f"{found.nonsense_periods} records name a period that is no month"),
        (found.overflow, "some leaves have no column and are kept in _overflow"),
    )
    return tuple(text for true, text in notes if true)


def standardize(arguments: JobArguments, contracts: SchemaStore, _: Runtime) -> Standardize:
    """The hop of a topic under its active contract."""
    active = contracts.active(arguments.topic.topic)
    return Standardize(arguments.topic, active.contract.version, active.sha256)


if __name__ == "__main__":
    sys.exit(main("standardize", standardize, sys.argv[1:]))
