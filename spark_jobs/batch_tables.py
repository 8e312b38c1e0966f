"""The tables of a standardize batch as it may see them: every read pinned, history only of the batch's days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table

from lean_ops import naming, tables
from lean_ops.aws import lake, row_filters, rows
from spark_jobs.identities import marked, numbered
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.work import OpenBatch


@dataclass(frozen=True)
class BatchTables:
    """RAW, Standardized and parse_errors around one plan."""

    catalog: Catalog
    batch: OpenBatch

    @cached_property
    def raw(self) -> Table:
        return self.catalog.load_table(naming.raw_table(self.batch.plan.topic))

    @property
    def target(self) -> Table:
        return self.catalog.load_table(naming.standardized_table(self.batch.plan.topic))

    @property
    def parse_errors(self) -> Table:
        return self.catalog.load_table(tables.PARSE_ERRORS.identifier)

    @property
    def days(self) -> BooleanExpression:
        return row_filters.published_on(self.batch.days)

    def in_range(self) -> Iterator[FileScanTask]:
        """What the plan reads."""
        plan = self.batch.plan
        return rows.files(self.raw, plan.start_snapshot, plan.end_snapshot, self.days)

    def ever(self) -> Iterator[FileScanTask]:
        """All that arrived on these days, up to the end of the range."""
        return rows.files(self.raw, None, self.batch.plan.end_snapshot, self.days)

    def before(self, among: pa.Table) -> pa.Table:
        """Which of the messages the target held already."""
        names = _names(among)
        return _those(rows.standing(self.target, self.batch.head, IDENTITY, self.days, names), among)

    def added(self, snapshot: int, columns: Sequence[str] = IDENTITY) -> pa.Table:
        """What the batch appended to its branch."""
        return rows.appended(self.target, self.batch.head, snapshot, columns)

    def errors(self, table: Table, among: pa.Table) -> pa.Table:
        """Which of the messages are parse errors, and of which batch."""
        mine = row_filters.both(row_filters.of_topic(self.batch.plan.topic), self.days)
        columns = (*IDENTITY, "batch_id")
        return _those(rows.standing(table, lake.head(table), columns, mine, _names(among)), among)


def _those(found: pa.Table, among: pa.Table) -> pa.Table:
    """The rows whose message is one of these."""
    likely = among.filter(pc.is_in(among["message_id"], value_set=_names(found)))
    (mine, wanted), size = numbered(found, likely)
    return found.filter(pa.array(marked(wanted, size)[mine]))


def _names(messages: pa.Table) -> pa.Array:
    return messages["message_id"].cast(pa.large_string()).combine_chunks()
