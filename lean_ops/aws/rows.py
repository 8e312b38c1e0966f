"""Rows of Iceberg tables as Arrow, read in this process: for few of them, starting Spark tasks costs far more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table

from lean_ops.aws import lake
from lean_ops.aws.table_files import EVERYTHING, TableFiles

_READERS = 4


def files(
    table: Table, start: int | None, end: int, where: BooleanExpression = EVERYTHING
) -> Iterator[FileScanTask]:
    """The files appended after `start` up to `end`; all that the table had at `end` when there is no start."""
    if start is None:
        yield from table.scan(where, snapshot_id=end).plan_files()
    else:
        yield from (FileScanTask(file) for file in lake.added_files(table, start, end))


def appended(
    table: Table,
    start: int | None,
    end: int,
    columns: Sequence[str],
    where: BooleanExpression = EVERYTHING,
) -> pa.Table:
    """What was appended after `start` up to `end`; all that the table held at `end` when there is no start."""
    return TableFiles.of(table).read(files(table, start, end, where), columns, where)


def standing(
    table: Table,
    snapshot: int,
    columns: Sequence[str],
    where: BooleanExpression,
    message_ids: pa.Array,
) -> pa.Table:
    """What the table held at a snapshot: of these messages all, of others few. History may be long."""
    read = partial(_of_file, TableFiles.of(table), columns=columns, where=where, message_ids=message_ids)
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(read, files(table, None, snapshot, where)))
    return pa.concat_tables([table.schema().select(*columns).as_arrow().empty_table(), *found])


def _of_file(
    of: TableFiles,
    file: FileScanTask,
    columns: Sequence[str],
    where: BooleanExpression,
    message_ids: pa.Array,
) -> pa.Table:
    rows = of.read([file], columns, where)
    # A table of all these ids is made for the look-up: for fewer rows than ids it does not pay.
    if len(rows) <= len(message_ids):
        return rows
    return rows.filter(pc.is_in(rows["message_id"], value_set=message_ids))
