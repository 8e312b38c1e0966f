"""The files of a batch as pieces of work: done one after the other here, or at once by the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyiceberg.table import FileScanTask
from pyspark.sql import SparkSession

# Every piece writes a file per partition: smaller pieces would fill the table with small files.
PIECE_ROWS = 250_000
PIECE_BYTES = 128 * 1024 * 1024

Part = TypeVar("Part")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Piece:
    """Some files that one task takes, small enough for its memory."""

    files: tuple[FileScanTask, ...]


class Run(Protocol):
    """Does the same with every part, and gives the results in the order of the parts."""

    def __call__(self, work: Callable[[Part], Done], parts: Sequence[Part], /) -> list[Done]: ...


def here(work: Callable[[Part], Done], parts: Sequence[Part], /) -> list[Done]:
    """In this process."""
    return [work(part) for part in parts]


def on_executors(spark: SparkSession) -> Run:
    """A task for every part."""

    def run(work: Callable[[Part], Done], parts: Sequence[Part], /) -> list[Done]:
        if not parts:
            return []
        found: list[Done] = spark.sparkContext.parallelize(parts, len(parts)).map(work).collect()
        return found

    return run


def cut(files: Iterable[FileScanTask]) -> tuple[Piece, ...]:
    """Pieces of neighbouring files; the order says nothing else than that it is always the same."""
    pieces: list[list[FileScanTask]] = []
    rows = size = 0
    for file in sorted(files, key=_place):
        rows, size = rows + file.file.record_count, size + file.file.file_size_in_bytes
        if not pieces or rows > PIECE_ROWS or size > PIECE_BYTES:
            pieces.append([])
            rows, size = file.file.record_count, file.file.file_size_in_bytes
        pieces[-1].append(file)
    return tuple(Piece(tuple(each)) for each in pieces)


def _place(file: FileScanTask) -> tuple[str, str]:
    return repr(file.file.partition), file.file.file_path
