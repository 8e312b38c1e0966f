"""Appends rows to an Iceberg table exactly once, whoever else appends the same ones at the same time.

What is there is looked up at one snapshot, and the append commits only if the table is still at that snapshot;
when it is not, the look-up is repeated. So a writer that was cut off after its commit, or that wakes up late,
finds its own rows and adds nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from lean_ops.errors import RetryableError

_ATTEMPTS = 20


def append_decided(
    catalog: Catalog,
    identifier: tuple[str, str],
    decide: Callable[[Table], pa.Table],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Append the rows that `decide` finds missing from the table as it is, in one commit; returns how many."""

    def append(table: Table) -> int:
        missing = decide(table)
        if len(missing):
            table.append(missing)
        return len(missing)

    return contended(catalog, identifier, append, sleep=sleep)


def contended(
    catalog: Catalog,
    identifier: tuple[str, str],
    commit: Callable[[Table], int],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Commit to the table as it is; when somebody else was faster, to the table as it is then."""
    for attempt in range(_ATTEMPTS):
        try:
            return commit(catalog.load_table(identifier))
        except CommitFailedException:
            sleep(random.uniform(0, 0.05 * 2 ** min(attempt, 5)))  # noqa: S311
    raise RetryableError(f"{'.'.join(identifier)} stayed contended", table=identifier)


def append_missing(
    catalog: Catalog,
    identifier: tuple[str, str],
    rows: Sequence[Mapping[str, Any]],
    *,
    key: str,
    where: BooleanExpression,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Append the rows whose key the table does not have `where` they belong, in one commit; returns how many."""

    def missing(table: Table) -> pa.Table:
        present = table.scan(where, selected_fields=(key,)).to_arrow()[key].to_pylist()
        return pa.Table.from_pylist(_first_of_each(rows, key, set(present)), schema=table.schema().as_arrow())

    return append_decided(catalog, identifier, missing, sleep=sleep)


def _first_of_each(rows: Sequence[Mapping[str, Any]], key: str, present: set[str]) -> list[Mapping[str, Any]]:
    first: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        first.setdefault(row[key], row)
    return [row for name, row in first.items() if name not in present]
