"""The tables as a standardize batch sees them: every read pinned to a snapshot, history only of the batch's days."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lean_ops import tables
from spark_jobs.iceberg import IcebergTable
from spark_jobs.transforms import books, duplicates
from spark_jobs.transforms.days import published_on, slice_of
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.work import OpenBatch


@dataclass(frozen=True)
class RawRange:
    """The rows of a plan's range, and where their messages may be already."""

    batch: OpenBatch
    errors: IcebergTable

    @cached_property
    def rows(self) -> DataFrame:
        """The rows of the range, each with its place."""
        plan, source = self.batch.plan, self.batch.source
        if plan.start_snapshot is None:
            frame = source.at(plan.end_snapshot)
        else:
            frame = source.between(plan.start_snapshot, plan.end_snapshot)
        names = (column.name for column in tables.RAW_COLUMNS)
        return slice_of(frame, plan).select(*names, *duplicates.PLACE)

    def before(self) -> DataFrame:
        """What the target held already on the batch's publish days."""
        return self.batch.target.at(self.batch.head).where(published_on(self.batch.days)).select(*IDENTITY)

    def known_errors(self) -> DataFrame:
        """The topic's parse errors of the batch's publish days, as of now."""
        self.errors.refresh()
        mine = F.col("topic_name") == self.batch.plan.topic
        return self.errors.at(self.errors.head).where(mine & published_on(self.batch.days))

    def history(self) -> DataFrame:
        """The identities that have an outcome already, on the batch's publish days."""
        return self.before().unionByName(self.known_errors().select(*IDENTITY))

    def arrivals(self) -> DataFrame:
        """All that ever arrived on the batch's publish days, up to the end of the range."""
        return self.batch.source.at(self.batch.plan.end_snapshot).where(published_on(self.batch.days))

    def outcomes(self, snapshot: int, among: DataFrame | None = None) -> DataFrame:
        """Where the range's identities stand now, read back from the tables; of history only those `among`."""
        errors, own = self.known_errors(), F.col("batch_id") == self.batch.plan.batch_id
        before = self.before().unionByName(errors.where(~own).select(*IDENTITY))
        errors = errors.where(own).select(*IDENTITY)
        if among is not None:
            before, errors = (
                frame.join(F.broadcast(among), on=IDENTITY, how="left_semi") for frame in (before, errors)
            )
        added = self.batch.target.between(self.batch.head, snapshot)
        return books.places(source=self.rows, added=added, before=before, errors=errors)
