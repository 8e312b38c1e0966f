"""Many records: rows stay where they are, only keys and versions move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lean_ops.aws import lake
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from spark_jobs.records import CuratedAudit, Curation, Moves, Source
from spark_jobs.transforms import curated, pii, validation
from spark_jobs.transforms.curated import EARLIER, KEY, NEWER
from spark_jobs.transforms.identity import IDENTITY, fingerprint, hashed
from spark_jobs.transforms.validation import CDE_VIOLATED, VIOLATIONS

_BROADCAST_ROWS = 500_000


@dataclass
class ExecutorRecords:
    """The records as a frame that is computed once."""

    curation: Curation
    source: Source
    checked: DataFrame
    verdict: Verdict

    @classmethod
    def of(cls, curation: Curation, source: Source) -> ExecutorRecords:
        checked = validation.validated(source.frame(), curation.contract, curation.places)
        if curation.key is not None:
            checked = pii.hashed_frame(checked, curation.personal, curation.key)
        checked = checked.persist(StorageLevel.MEMORY_AND_DISK)
        counted = checked.agg(
            F.count("*").alias("records"),
            F.count(VIOLATIONS).alias("invalid"),
            F.count_if(CDE_VIOLATED).alias("cde"),
        ).collect()[0]
        return cls(curation, source, checked, Verdict(counted.records, counted.invalid, counted.cde))

    def invalid(self) -> pa.Table:
        return validation.invalid(self.checked).toArrow()

    def look_up(self) -> Moves:
        batch = self.curation.batch
        self.found = curated.contenders(self._valid()).localCheckpoint()
        history = batch.target.at(batch.head)
        if lake.live_rows(self.curation.curated) == 0:
            history = history.limit(0)
        # Pinned: what is decided here must not be decided again when the table has changed.
        self.known = curated.known(history, self._small(self.found)).localCheckpoint()
        self.moved = self.known.where(F.col(NEWER) | F.col(EARLIER))
        counted = self.moved.groupBy("_period").agg(
            F.count_if(NEWER).alias("newer"), F.count("*").alias("all")
        )
        rows = counted.collect()
        newer, moved = sum(row.newer for row in rows), sum(row["all"] for row in rows)
        return Moves(
            curated.cases(self.curation.curated_names, newer=newer > 0, older=moved > newer),
            sorted(row._period for row in rows),
        )

    def updates(self) -> DataFrame:
        return curated.updates(self._best(), self._small(self.moved))

    def new(self) -> DataFrame:
        return self._best().join(self._small(self.known.select(*KEY)), on=KEY, how="left_anti")

    def audit(self, snapshots: Sequence[int]) -> CuratedAudit:
        records = curated.keyed(self.source.frame().select(*IDENTITY, "idempotency_key"))
        keys = self._small(records.select(*KEY).distinct())
        rows = self.curation.batch.target.at(snapshots[-1]).join(keys, on=KEY, how="left_semi")
        errors = self.curation.spark.createDataFrame(self.curation.errors.left_open())
        standing = curated.outcomes(records, rows, errors)
        moved = self.known.agg(
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
        keys_in_all = self.found.agg(F.count("*").alias("valid_keys"))
        totals = counted.crossJoin(moved).crossJoin(keys_in_all).collect()[0].asDict()
        counts = {name: int(value) for name, value in totals.items()}
        written = lake.written(self.curation.curated, snapshots)
        return CuratedAudit(CuratedBooks(**counts, **written), partial(_offenders, standing))

    def release(self) -> None:
        self.checked.unpersist()

    def _valid(self) -> DataFrame:
        return curated.keyed(self.checked.where(F.col(VIOLATIONS).isNull()))

    def _best(self) -> DataFrame:
        version, names = self.curation.batch.plan.contract_version, self.curation.curated_names
        rows = curated.winners(self._valid(), self.found).withColumns(
            {"last_updated_ts": F.col("publish_time"), "contract_version": F.lit(version)}
        )
        absent = {name: F.lit(None) for name in names if name not in rows.columns}
        return rows.withColumns(absent).select(*names)

    def _small(self, frame: DataFrame) -> DataFrame:
        return F.broadcast(frame) if self.curation.batch.rows <= _BROADCAST_ROWS else frame


def _offenders(standing: DataFrame, limit: int = 10) -> list[str]:
    wrong = standing.where(curated.is_missing() | curated.is_doubled())
    return [row.message_id for row in wrong.select("message_id").limit(limit).collect()]
