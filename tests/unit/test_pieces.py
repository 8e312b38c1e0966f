"""Files become pieces that a task can hold, each file in one of them, always the same way."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record

from spark_jobs import pieces
from spark_jobs.pieces import Here, cut


def file(number: int, rows: int, size: int) -> FileScanTask:
    return FileScanTask(
        DataFile.from_args(
            file_path=f"s3://lake/{number}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(20_000 + number % 3),
            record_count=rows,
            file_size_in_bytes=size,
        )
    )


SIZES = st.lists(
    st.tuples(st.integers(0, 2 * pieces.PIECE_ROWS), st.integers(1, 2 * pieces.PIECE_BYTES)), max_size=12
)


@given(SIZES, st.integers(1, 4), st.randoms())
def test_every_file_is_in_one_piece_and_the_pieces_are_alike(
    sizes: list[tuple[int, int]], tasks: int, chance: random.Random
) -> None:
    files = [file(number, *size) for number, size in enumerate(sizes)]
    found = cut(files, tasks)
    paths = [task.file.file_path for piece in found for task in piece.files]
    assert sorted(paths) == sorted(task.file.file_path for task in files)
    rows = sum(size for size, _ in sizes)
    biggest = max((size for size, _ in sizes), default=0)
    for piece in found:
        # No piece is worse off than the average by more than one file.
        assert (
            sum(task.file.record_count for task in piece.files)
            <= max(rows / tasks, pieces.PIECE_ROWS) + biggest
        )
    shuffled = chance.sample(files, len(files))
    assert [[task.file.file_path for task in piece.files] for piece in cut(shuffled, tasks)] == [
        [task.file.file_path for task in piece.files] for piece in found
    ]


def test_work_is_done_in_the_order_of_its_parts() -> None:
    assert Here()(str, [3, 1, 2]) == ["3", "1", "2"]
