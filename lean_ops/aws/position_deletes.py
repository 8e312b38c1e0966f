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
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.table.locations import load_location_provider

from lean_ops.aws.table_files import TableFiles

Positions = npt.NDArray[np.int64]

# Columns of a delete file and their ids, as Iceberg's specification has them.
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


class Doomed(NamedTuple):
    """Rows of one file."""

    file: DataFile
    positions: Positions


@dataclass(frozen=True)
class Deleted:
    """What the delete files of a table name. Many data files share one; it is read once."""

    files: TableFiles
    read: dict[str, dict[str, Positions]] = field(default_factory=dict)

    def places(self, task: FileScanTask) -> Positions:
        """The places in a data file whose rows have left the table."""
        nothing = np.empty(0, np.int64)
        named = (self._named(delete.file_path) for delete in task.delete_files)
        return np.concatenate([nothing, *(each.get(task.file.file_path, nothing) for each in named)])

    def _named(self, path: str) -> dict[str, Positions]:
        if path not in self.read:
            with self.files.io.new_input(path).open() as stream:
                rows = pq.ParquetFile(stream, read_dictionary=["file_path"]).read(
                    columns=["file_path", "pos"]
                )
            files = rows["file_path"].combine_chunks()
            numbers, places = files.indices.to_numpy(), rows["pos"].to_numpy()
            paths = enumerate(files.dictionary.to_pylist())
            self.read[path] = {name: places[numbers == number] for number, name in paths}
        return self.read[path]


def write(files: TableFiles, doomed: Iterable[Doomed]) -> list[DataFile]:
    """Delete files for these rows, one per partition; they take effect when they are committed."""
    partitions: dict[tuple[int, str], list[Doomed]] = defaultdict(list)
    schema, specs = files.metadata.schema(), files.metadata.specs()
    for each in doomed:
        path = specs[each.file.spec_id].partition_to_path(each.file.partition, schema)
        partitions[each.file.spec_id, path].append(each)
    return [_write(files, each) for _, each in sorted(partitions.items(), key=lambda item: item[0])]


def _write(files: TableFiles, doomed: list[Doomed]) -> DataFile:
    # Readers rely on the order: by file, then by place.
    ordered = sorted(doomed, key=lambda each: each.file.file_path)
    paths = [path for each in ordered for path in [each.file.file_path] * len(each.positions)]
    places = np.concatenate([np.sort(each.positions) for each in ordered])
    locations = load_location_provider(files.metadata.location, files.metadata.properties)
    target = files.io.new_output(locations.new_data_location(f"{uuid4()}-deletes.parquet"))
    with target.create() as stream:
        pq.write_table(pa.table([paths, places], schema=_SCHEMA), stream, compression="zstd")
    made = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=target.location,
        file_format=FileFormat.PARQUET,
        partition=ordered[0].file.partition,
        record_count=len(paths),
        file_size_in_bytes=len(target),
        # By the first and the last file that is named, readers know which files need not look into this one.
        lower_bounds={_PATH_ID: paths[0].encode()},
        upper_bounds={_PATH_ID: paths[-1].encode()},
    )
    made.spec_id = ordered[0].file.spec_id
    return made
