"""The files of a batch as pieces of work: done one after the other here, or at once by the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil
from typing import TypeVar

from pyiceberg.table import FileScanTask
from pyspark.sql import SparkSession

# Every piece writes a file per partition: smaller pieces would fill the table with small files.
PIECE_ROWS = 250_000
PIECE_BYTES = 128 * 1024 * 1024
ROWS_WORTH_A_TASK = 10_000

Part = TypeVar("Part")
Done = TypeVar("Done")


@dataclass(frozen=True)
class Piece:
    """Some files that one task takes, small enough for its memory."""

    files: tuple[FileScanTask, ...]


@dataclass(frozen=True)
class Here:
    """Does the same with every part in this process."""

    at_once: int = 1

    def __call__(self, work: Callable[[Part], Done], parts: Sequence[Part]) -> list[Done]:
        return [work(part) for part in parts]


@dataclass(frozen=True)
class InThreads:
    """Does the same with every part in this process, several at once: for work that is mostly Arrow's."""

    at_once: int = 4

    def __call__(self, work: Callable[[Part], Done], parts: Sequence[Part]) -> list[Done]:
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(work, parts))


@dataclass(frozen=True)
class OnExecutors:
    """Does the same with every part in a task of its own."""

    spark: SparkSession

    @property
    def at_once(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def __call__(self, work: Callable[[Part], Done], parts: Sequence[Part]) -> list[Done]:
        if not parts:
            return []
        found: list[Done] = self.spark.sparkContext.parallelize(parts, len(parts)).map(work).collect()
        return found


Run = Here | OnExecutors


def cut(files: Iterable[FileScanTask], tasks: int = 1) -> tuple[Piece, ...]:
    """Pieces of about the same size, so that none of so many tasks at once waits long for the others.

    Which file is in which piece says nothing, but it is always the same.
    """
    biggest_first = sorted(files, key=lambda file: (-file.file.record_count, file.file.file_path))
    rows = sum(file.file.record_count for file in biggest_first)
    tasks = min(tasks, max(1, ceil(rows / ROWS_WORTH_A_TASK)))
    size = sum(file.file.file_size_in_bytes for file in biggest_first)
    rounds = max(1, ceil(rows / (PIECE_ROWS * tasks)), ceil(size / (PIECE_BYTES * tasks)))
    least = [(0, number) for number in range(rounds * tasks)]
    pieces: list[list[FileScanTask]] = [[] for _ in least]
    for file in biggest_first:
        held, number = heappop(least)
        pieces[number].append(file)
        heappush(least, (held + file.file.record_count, number))
    return tuple(Piece(tuple(sorted(each, key=_place))) for each in pieces if each)


def _place(file: FileScanTask) -> str:
    return file.file.file_path
