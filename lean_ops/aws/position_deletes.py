"""Rows that leave a table without their files being touched: a delete file names the file and the place of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider

from lean_ops.aws.table_files import TableFiles

Positions = npt.NDArray[np.int64]

# Columns of a delete file and their ids, as Iceberg's specification has them.
PATH_ID, POSITION_ID = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


class Doomed(NamedTuple):
    """Rows of one file."""

    file: DataFile
    positions: Positions


class DeleteFile(NamedTuple):
    """A written delete file: what a commit has to know of it."""

    path: str
    size: int
    rows: int
    spec_id: int
    partition_path: str
    first_file: str
    last_file: str


@dataclass(frozen=True)
class Deleted:
    """What the delete files of a table name. Many data files share one; it is read once."""

    files: TableFiles
    read: dict[str, pa.Table] = field(default_factory=dict)

    def places(self, task: FileScanTask) -> Positions:
        """The places in a data file whose rows have left the table."""
        named = (self._named(delete.file_path) for delete in task.delete_files)
        own = (each.filter(pc.equal(each["file_path"], task.file.file_path)) for each in named)
        return np.concatenate([np.empty(0, np.int64), *(each["pos"].to_numpy() for each in own)])

    def _named(self, path: str) -> pa.Table:
        if path not in self.read:
            with self.files.io.new_input(path).open() as stream:
                self.read[path] = pq.read_table(stream, columns=["file_path", "pos"])
        return self.read[path]


def write(files: TableFiles, doomed: Iterable[Doomed]) -> list[DeleteFile]:
    """Delete files for these rows, one per partition; they take effect when they are committed."""
    partitions: dict[tuple[int, str], list[Doomed]] = defaultdict(list)
    schema, specs = files.metadata.schema(), files.metadata.specs()
    for each in doomed:
        path = specs[each.file.spec_id].partition_to_path(each.file.partition, schema)
        partitions[each.file.spec_id, path].append(each)
    return [_write(files, spec_id, path, each) for (spec_id, path), each in sorted(partitions.items())]


def _write(files: TableFiles, spec_id: int, partition_path: str, doomed: list[Doomed]) -> DeleteFile:
    # Readers rely on the order: by file, then by place.
    ordered = sorted(doomed, key=lambda each: each.file.file_path)
    paths = [path for each in ordered for path in [each.file.file_path] * len(each.positions)]
    places = np.concatenate([np.sort(each.positions) for each in ordered])
    locations = load_location_provider(files.metadata.location, files.metadata.properties)
    target = files.io.new_output(locations.new_data_location(f"{uuid4()}-deletes.parquet"))
    with target.create() as stream:
        pq.write_table(pa.table([paths, places], schema=_SCHEMA), stream, compression="zstd")
    return DeleteFile(target.location, len(target), len(paths), spec_id, partition_path, paths[0], paths[-1])
