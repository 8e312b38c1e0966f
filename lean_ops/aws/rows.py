"""Rows of Iceberg tables as Arrow, read in this process: for few of them, starting Spark tasks costs far more."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from lean_ops.aws import lake

EVERYTHING: BooleanExpression = AlwaysTrue()


def appended(
    table: Table,
    start: int | None,
    end: int,
    columns: Sequence[str],
    where: BooleanExpression = EVERYTHING,
) -> pa.Table:
    """What was appended after `start` up to `end`; all that the table held at `end` when there is no start."""
    if start is None:
        return table.scan(where, selected_fields=tuple(columns), snapshot_id=end).to_arrow()
    files = [FileScanTask(file) for file in lake.added_files(table, start, end)]
    return ArrowScan(table.metadata, table.io, _projected(table, columns), where).to_table(files)


def standing(
    table: Table, snapshot: int, columns: Sequence[str], where: BooleanExpression = EVERYTHING
) -> pa.Table:
    """What the table held at a snapshot."""
    return appended(table, None, snapshot, columns, where)


def of_file(table: Table, file: FileScanTask, columns: Sequence[str]) -> pa.Table:
    """The rows of one file."""
    return ArrowScan(table.metadata, table.io, _projected(table, columns), EVERYTHING).to_table([file])


def _projected(table: Table, columns: Sequence[str]) -> Schema:
    return table.schema().select(*columns)
