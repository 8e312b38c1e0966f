"""The rows of a hop's source, in files that tasks read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import FileScanTask, Table

from lean_ops.aws.table_files import TableFiles
from spark_jobs.pieces import Piece


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
