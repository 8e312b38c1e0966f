"""Microseconds per payload and MB/s: the one definition, the mould, and the standard library, in one run.

All take the same mixed events (about 600 bytes, a few broken) in turns, on one core; the best round of each
counts, in CPU time. The last line is the whole Arrow function as tasks call it.

    python -m benchmarks.flatten
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from benchmarks.events import rows
from lean_ops.payload.columns import ENVELOPE, OVERFLOW, extend, registry
from lean_ops.payload.flatten import Kind, ParseFault, leaves
from lean_ops.payload.mould import Mould
from lean_ops.payload.survey import KnownShape, Survey
from spark_jobs.transforms.payloads import CHUNK_ROWS, TableColumn, TableShape, flatten

PAYLOADS, ROUNDS = 20_000, 5
DEFINITION, MOULD = "leaves, the one definition", "mould, all texts"


@dataclass(frozen=True)
class Rate:
    """The best round of a contender."""

    name: str
    microseconds: float
    megabytes_per_second: float


def measure() -> list[Rate]:
    batch = pa.RecordBatch.from_pylist(list(rows(PAYLOADS)))
    texts: list[str] = batch.column("json_payload").to_pylist()
    sources = [text.encode() for text in texts]
    kinds = _kinds(sources)
    table = _table(kinds)
    contenders: dict[str, Callable[[], object]] = {
        "stdlib json.loads (numbers changed, not flattened)": lambda: _each(_stdlib, texts),
        DEFINITION: lambda: _each(leaves, sources),
        MOULD: lambda: _each(Mould(kinds).read, _chunks(sources)),
        "survey (the mould, and what does not fit)": lambda: _each(
            Survey(table.known).read, _chunks(sources)
        ),
        "flatten (Arrow in, Arrow out)": lambda: _each(len, flatten([batch], table)),
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            start = time.process_time()
            contender()
            best[name] = min(best[name], time.process_time() - start)
    size = sum(map(len, sources))
    return [Rate(name, best[name] / PAYLOADS * 1e6, size / best[name] / 1e6) for name in contenders]


def _kinds(sources: list[bytes]) -> dict[str, tuple[Kind, ...]]:
    survey = Survey(KnownShape(room=500))
    for chunk in _chunks(sources):
        survey.read(chunk)
    return {path: tuple(sorted(kinds)) for path, kinds in survey.findings().kinds.items()}


def _table(kinds: dict[str, tuple[Kind, ...]]) -> TableShape:
    added = extend(registry([]), kinds, 500, "add").added
    columns = (TableColumn(name, path, kinds[path]) for name, path in added)
    return TableShape(
        (*(TableColumn(name) for name in (*ENVELOPE, OVERFLOW)), *columns),
        "_metadata.idempotencyKeyResource",
        "_metadata.periodReference",
    )


def _chunks(sources: list[bytes]) -> Iterator[list[bytes | None]]:
    return ([*sources[start : start + CHUNK_ROWS]] for start in range(0, len(sources), CHUNK_ROWS))


def _stdlib(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _each(take: Callable[[Any], object], items: Iterable[Any]) -> None:
    for item in items:
        take(item)


def report(rates: list[Rate]) -> None:
    broken = sum(isinstance(leaves(str(row["json_payload"])), ParseFault) for row in rows(PAYLOADS))
    print(f"\n{PAYLOADS:,} payloads, {broken} of them broken, best of {ROUNDS} rounds, CPU time")
    for rate in rates:
        print(f"{rate.microseconds:8.1f} µs  {rate.megabytes_per_second:6.0f} MB/s  {rate.name}")


if __name__ == "__main__":
    report(measure())
