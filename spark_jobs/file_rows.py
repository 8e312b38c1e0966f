"""Rows in files as a task has them: read file by file, written as files that nobody sees before they are appended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from lean_ops.aws.table_files import TableFiles
from spark_jobs.pieces import Piece

# So much of a piece is held at once; beyond it, another file per partition begins.
WRITTEN_AT_ONCE = 256 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """The table that a hop reads."""

    files: TableFiles
    where: BooleanExpression

    @classmethod
    def of(cls, table: Table, where: BooleanExpression) -> Source:
        return cls(TableFiles.of(table), where)

    def read(self, files: Iterable[FileScanTask], columns: Sequence[str]) -> pa.Table:
        return self.files.read(files, columns, self.where)

    def gather(self, pieces: Sequence[Piece], columns: Sequence[str]) -> tuple[pa.Table, tuple[int, ...]]:
        """Some columns of all rows, and where those of each piece begin and end."""
        read = [self.read(piece.files, columns) for piece in pieces]
        rows = pa.concat_tables([self.read((), columns), *read])
        return rows, tuple(np.cumsum([0, *map(len, read)]).tolist())

    def files_of(self, piece: Piece, columns: Sequence[str]) -> Iterator[tuple[pa.Table, slice]]:
        """The files of a piece one by one, and which rows of the piece they are."""
        start = 0
        for file in piece.files:
            found = self.read([file], columns)
            yield found, slice(start, start + len(found))
            start += len(found)


@dataclass
class Written:
    """Rows on their way into files."""

    target: TableFiles
    sort_by: str | None = None
    files: list[DataFile] = field(default_factory=list)
    held: list[pa.Table] = field(default_factory=list)
    size: int = 0

    def add(self, rows: pa.Table) -> None:
        self.held.append(rows)
        self.size += rows.nbytes
        if self.size > WRITTEN_AT_ONCE:
            self.finish()

    def finish(self) -> list[DataFile]:
        if self.held:
            rows = pa.concat_tables(self.held)
            self.files += self.target.write(rows.sort_by(self.sort_by) if self.sort_by else rows)
        self.held, self.size = [], 0
        return self.files
