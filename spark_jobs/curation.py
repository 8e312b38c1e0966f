"""Standardized rows on their way into Curated, whichever job brings them.

Look up the batch's keys in all history, update the rows that change, append the keys that are new, both on the
batch's branch; then count from the tables where every record stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
from pyiceberg.table import Table
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lean_ops import naming
from lean_ops.aws import lake
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload import columns
from lean_ops.payload.columns import OVERFLOW
from lean_ops.tables import TableSpec
from spark_jobs.protocol import OpenBatch, Ports, Staged
from spark_jobs.record_errors import ErrorLog
from spark_jobs.transforms import curated, pii, validation
from spark_jobs.transforms.curated import EARLIER, FIRST, KEY, NEWER
from spark_jobs.transforms.identity import IDENTITY, fingerprint, hashed
from spark_jobs.transforms.validation import CDE_VIOLATED, VIOLATIONS, Places

DRIVER_ROWS = 20_000
_BROADCAST_ROWS = 500_000
# From this many rows on, a file per task is big enough: no shuffle to gather them.
_ROWS_WORTH_A_FILE = 50_000


@dataclass(frozen=True)
class Curation:
    """One batch under its contract; `key` is the PII key, when the contract has personal columns."""

    spark: SparkSession
    batch: OpenBatch
    ports: Ports
    contract: ContractSpec
    table: TableSpec
    key: bytes | None
    driver_rows: int = DRIVER_ROWS

    def stage(self, rows: DataFrame, judge: Callable[[Verdict], tuple[str, ...]]) -> Staged:
        """Invalid records to `errors`, the others to the branch; then both are counted back.

        `judge` stops a batch before anything of it is written, or says what should be heard about it.
        """
        steps = self.ports.steps
        with steps("validate"):
            checked, verdict = self._checked(rows)
        alerts = judge(verdict)
        try:
            with steps("write_errors"):
                if verdict.invalid:
                    self.errors.append(checked.where(F.col(VIOLATIONS).isNotNull()))
            with steps("look_up"):
                valid = curated.keyed(checked.where(F.col(VIOLATIONS).isNull()))
                found = self._pinned(curated.contenders(valid))
                known = self._known(found)
                moved = known.where(F.col(NEWER) | F.col(EARLIER))
                cases = self._cases(moved)
            best = self._complete(curated.winners(valid, found))
            with steps("update"):
                if cases:
                    self._update(curated.updates(best, self._small(moved)), moved, cases)
            with steps("append"):
                new = best.join(self._small(known.select(*KEY)), on=KEY, how="left_anti")
                self.batch.target.append(
                    new, self.batch.plan.token.summary(), branch=self.batch.branch, **self._layout()
                )
        finally:
            checked.unpersist()
        with steps("audit"):
            snapshots = self.batch.target.staged(self.batch.branch, self.batch.head, 2 if cases else 1)
            books, standing = self._audit(rows, found, known, snapshots)
        return Staged(
            books=books,
            offenders=lambda: _offenders(standing),
            snapshot=snapshots[-1],
            counts={"invalid_rows": verdict.invalid, "cde_violations": verdict.cde_violations},
            drift=(),
            warnings=(),
            alerts=alerts,
        )

    @property
    def errors(self) -> ErrorLog:
        return ErrorLog(self.spark, self.ports.catalog, self.batch.plan, self.batch.days)

    @property
    def _few(self) -> bool:
        return self.batch.rows <= self.driver_rows

    def _checked(self, rows: DataFrame) -> tuple[DataFrame, Verdict]:
        """The rows with their values and violations, computed once."""
        standardized = naming.standardized_table(self.batch.plan.topic)
        places = _places(self.ports.catalog.load_table(standardized))
        checked = validation.validated(rows, self.contract, places)
        personal = [column.name for column in self.contract.payload_columns if column.pii]
        if self._few:
            table = checked.toArrow()
            if self.key is not None:
                table = pii.hashed_table(table, personal, self.key)
            invalid = len(table) - table[VIOLATIONS].null_count
            cde = pc.sum(table[CDE_VIOLATED]).as_py() or 0
            return self.spark.createDataFrame(table).coalesce(1), Verdict(len(table), invalid, cde)
        if self.key is not None:
            checked = pii.hashed_frame(checked, personal, self.key)
        checked = checked.persist(StorageLevel.MEMORY_AND_DISK)
        counted = checked.agg(
            F.count("*").alias("records"),
            F.count(VIOLATIONS).alias("invalid"),
            F.count_if(CDE_VIOLATED).alias("cde"),
        ).collect()[0]
        return checked, Verdict(counted.records, counted.invalid, counted.cde)

    def _pinned(self, frame: DataFrame) -> DataFrame:
        """Computed once: what is decided here must not be decided again when the tables have changed."""
        return self.spark.createDataFrame(frame.toArrow()) if self._few else frame.localCheckpoint()

    def _small(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self.batch.rows <= _BROADCAST_ROWS else frame

    def _known(self, found: DataFrame) -> DataFrame:
        """The batch's keys that have a row at the head the batch began at."""
        history = self.batch.target.at(self.batch.head)
        if lake.live_rows(self._target) == 0:
            history = history.limit(0)
        return self._pinned(curated.known(history, self._small(found)))

    @property
    def _target(self) -> Table:
        return self.ports.catalog.load_table(self.table.identifier)

    def _cases(self, moved: DataFrame) -> Mapping[str, tuple[str, ...]]:
        """Which columns an update sets: all of a newer version; only first_* where none is newer."""
        counted = moved.agg(F.count_if(NEWER).alias("newer"), F.count_if(~F.col(NEWER)).alias("older"))
        row = counted.collect()[0]
        names = tuple(name for name in self._names if name not in KEY)
        return ({NEWER: names} if row.newer else {}) | ({EARLIER: tuple(FIRST)} if row.older else {})

    @property
    def _names(self) -> list[str]:
        """Every column that the table has: those that the contract lacks are NULL in what it writes."""
        return [field.name for field in self._target.schema().fields]

    def _complete(self, rows: DataFrame) -> DataFrame:
        rows = rows.withColumns(
            {
                "last_updated_ts": F.col("publish_time"),
                "contract_version": F.lit(self.batch.plan.contract_version),
            }
        )
        absent = {name: F.lit(None) for name in self._names if name not in rows.columns}
        return rows.withColumns(absent).select(*self._names)

    def _update(self, rows: DataFrame, moved: DataFrame, cases: Mapping[str, tuple[str, ...]]) -> None:
        periods = [row._period for row in moved.select("_period").distinct().collect()]
        self.batch.target.update(
            rows, branch=self.batch.branch, on=KEY, among={"period_reference": sorted(periods)}, cases=cases
        )

    def _layout(self) -> dict[str, str]:
        if self.batch.rows < _ROWS_WORTH_A_FILE:
            return {"distribution-mode": "hash"}
        return {"distribution-mode": "none", "fanout-enabled": "true"}

    def _audit(
        self, source: DataFrame, found: DataFrame, known: DataFrame, snapshots: list[int]
    ) -> tuple[CuratedBooks, DataFrame]:
        records = curated.keyed(source)
        keys = self._small(records.select(*KEY).distinct())
        rows = self.batch.target.at(snapshots[-1]).join(keys, on=KEY, how="left_semi")
        errors = self.errors.open_now()
        standing = curated.outcomes(
            records, rows, source.select(*IDENTITY).limit(0) if errors is None else errors
        )
        moved = known.agg(
            F.count("*").alias("known_keys"), F.count_if(F.col(NEWER) | F.col(EARLIER)).alias("moved_keys")
        )
        counted = hashed(standing).agg(
            F.count("*").alias("source_rows"),
            fingerprint().alias("source_fingerprint"),
            F.count_if(curated.is_current()).alias("current_messages"),
            fingerprint(curated.is_current()).alias("current_fingerprint"),
            F.count_if(curated.is_superseded()).alias("superseded_messages"),
            fingerprint(curated.is_superseded()).alias("superseded_fingerprint"),
            F.count_if("is_error").alias("error_messages"),
            fingerprint(F.col("is_error")).alias("error_fingerprint"),
            F.count_if(curated.is_missing()).alias("missing"),
            F.count_if(curated.is_doubled()).alias("doubled"),
        )
        keys_in_all = found.agg(F.count("*").alias("valid_keys"))
        totals = counted.crossJoin(moved).crossJoin(keys_in_all).collect()[0].asDict()
        target = self._target
        written = {
            "added_rows": lake.added_rows(target, snapshots[-1]),
            "updated_rows": lake.added_rows(target, snapshots[0]) if len(snapshots) > 1 else 0,
        }
        return CuratedBooks(**{name: int(value) for name, value in totals.items()}, **written), standing


def _places(standardized: Table) -> Places:
    fields = standardized.schema().fields
    registry = columns.registry((field.name, field.doc) for field in fields)
    return Places(registry.columns, OVERFLOW in {field.name for field in fields})


def _offenders(standing: DataFrame, limit: int = 10) -> list[str]:
    wrong = standing.where(curated.is_missing() | curated.is_doubled())
    return [row.message_id for row in wrong.select("message_id").limit(limit).collect()]
