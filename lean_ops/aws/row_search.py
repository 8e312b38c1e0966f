"""Finds the few rows of a big table that hold a value, and the commit that brought each.

What the manifests' bounds leave over is narrowed down by that one column alone; only the files that do hold the
value are read as rows, with their deletes applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import ALWAYS_TRUE, FileScanTask, Table

from lean_ops.aws import row_filters
from lean_ops.aws.sql import dataset
from lean_ops.batch.batch_plan import BATCH_ID
from lean_ops.batch.explanation import Found


def rows_with(
    table: Table,
    column: str,
    values: Sequence[Any],
    fields: Iterable[str],
    *,
    where: BooleanExpression = ALWAYS_TRUE,
    snapshot: int | None = None,
) -> list[Found]:
    """The rows whose column has one of the values, as of a snapshot or now; without fields that the table lacks."""
    if not values:
        return []
    known = {field.name for field in table.schema().fields}
    wanted = tuple(name for name in dict.fromkeys((column, *fields)) if name in known)
    row_filter = row_filters.both(where, row_filters.among(column, values))
    scan = table.scan(row_filter=row_filter, selected_fields=wanted, snapshot_id=snapshot)
    holding = _holding(table, list(scan.plan_files()), column, values)
    commits = _commits(table, {task.file.file_path for task in holding}, snapshot)
    found = []
    for task in holding:
        reader = ArrowScan(table.metadata, table.io, scan.projection(), row_filter)
        rows = reader.to_table([task]).to_pylist()
        found += [_found(table, row, commits.get(task.file.file_path)) for row in rows]
    return found


def _holding(
    table: Table, tasks: list[FileScanTask], column: str, values: Sequence[Any]
) -> list[FileScanTask]:
    """The files that hold a value, deleted rows included."""
    if not tasks:
        return []
    by_path = {table.io.new_input(task.file.file_path)._path: task for task in tasks}  # type: ignore[attr-defined]
    condition = reduce(or_, (pc.field(column) == value for value in values))
    hits = dataset(table, tasks).scanner(columns=["__filename"], filter=condition).to_table()
    return [by_path[path] for path in sorted(set(hits["__filename"].to_pylist()))]


def _commits(table: Table, paths: set[str], snapshot_id: int | None) -> dict[str, int]:
    """The snapshot that added each file."""
    snapshot = table.snapshot_by_id(snapshot_id) if snapshot_id else table.current_snapshot()
    commits: dict[str, int] = {}
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if paths <= commits.keys():
            break
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.file_path in paths and entry.status is not ManifestEntryStatus.DELETED:
                commits[entry.data_file.file_path] = entry.snapshot_id or 0
    return commits


def _found(table: Table, row: dict[str, Any], commit: int | None) -> Found:
    snapshot = table.snapshot_by_id(commit) if commit else None
    if snapshot is None:
        return Found(row, commit)
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    return Found(row, commit, at, summary.get(BATCH_ID))
