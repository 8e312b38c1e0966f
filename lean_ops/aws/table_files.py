"""The data files of an Iceberg table, read and written without its catalog: by tasks on other machines too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from lean_ops.aws.row_delta import replacing

EVERYTHING: BooleanExpression = AlwaysTrue()


@dataclass(frozen=True)
class TableFiles:
    """Where a table's files are and what they look like. It can be sent to a task, which a `Table` cannot."""

    metadata: TableMetadata
    io: FileIO

    @classmethod
    def of(cls, table: Table) -> Self:
        # Tasks need no history, which grows with every commit.
        past: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "statistics": []}
        return cls(table.metadata.model_copy(update=past), table.io)

    def read(
        self, files: Iterable[FileScanTask], columns: Sequence[str], where: BooleanExpression = EVERYTHING
    ) -> pa.Table:
        """The rows of some files, in the order of the files and of the rows in them."""
        projected = self.metadata.schema().select(*columns)
        rows = ArrowScan(self.metadata, self.io, projected, where).to_table(list(files))
        # Whoever wrote the files: Spark's have short texts, ours have large ones.
        return rows.cast(projected.as_arrow())

    def column(self, file: DataFile, name: str) -> pa.ChunkedArray:
        """A column that a file has had from the beginning, whatever left the table since: ten times as quick."""
        with self.io.new_input(file.file_path).open() as stream:
            return pq.ParquetFile(stream).read(columns=[name])[name]

    def write(self, rows: pa.Table) -> list[DataFile]:
        """New files with these rows, one per partition; nobody sees them before they are appended."""
        # In one batch: every batch would be brought to the table's schema by itself.
        whole = rows.combine_chunks()
        return list(_dataframe_to_data_files(self.metadata, whole, self.io)) if len(rows) else []


def append(
    table: Table,
    files: Iterable[DataFile],
    summary: Mapping[str, str],
    *,
    branch: str = "main",
    deletes: Sequence[DataFile] = (),
) -> None:
    """Append files in one commit, which fails if the branch is no longer where `table` saw it.

    With delete files, the rows that they name leave in the same commit.
    """
    with table.transaction() as transaction:
        change = transaction.update_snapshot(dict(summary), branch=branch)
        with replacing(change, deletes) if deletes else change.fast_append() as update:
            for file in files:
                update.append_data_file(file)
