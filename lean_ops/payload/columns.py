"""Which payload path lives in which column of a Standardized table.

The table is its own registry: a payload column's `doc` holds its path. Two paths may flatten to one name; the
first one owns it, later ones get a suffix made from the path, so that a name depends on nothing but the table
and the path. What gets no column is kept in `_overflow`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lean_ops.payload import payload_path

Policy = Literal["add", "ignore", "fail"]

OVERFLOW: Final = "_overflow"
ENVELOPE: Final = (
    "message_id",
    "topic_name",
    "publish_time",
    "ingestion_ts",
    "idempotency_key",
    "period_reference",
)
# Iceberg refuses to read tables that use the names of its own metadata columns.
_ICEBERG_OWN = (
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
    "_row_id",
    "_last_updated_sequence_number",
)
RESERVED: Final = frozenset((*ENVELOPE, OVERFLOW, *_ICEBERG_OWN))

_NAME_LENGTH = 255
_SUFFIX_LENGTHS = range(8, 65, 8)
# Glue shows a column's doc as its comment: one line of at most 255 bytes, or it refuses the whole table.
_DOC_BYTES = 255
_ONE_LINE = re.compile("[\t\u0020-\ufffd\U00010000-\U0010ffff]+")
_NOT_IN_NAMES = re.compile("[^A-Za-z0-9_]")


@dataclass(frozen=True)
class Registry:
    """The payload columns of a table by path, and every name that is taken, in lower case."""

    columns: Mapping[str, str] = field(default_factory=dict)
    taken: frozenset[str] = RESERVED


@dataclass(frozen=True)
class RegistryPlan:
    """Columns to add as (name, path); paths that go to `_overflow`; paths for which the batch must not run."""

    added: tuple[tuple[str, str], ...] = ()
    overflow: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def registry(fields: Iterable[tuple[str, str | None]]) -> Registry:
    """The registry of a table, from the (name, doc) of its fields. A field without doc only takes a name."""
    columns: dict[str, str] = {}
    taken = set(RESERVED)
    for name, doc in fields:
        taken.add(name.lower())
        if doc and name not in RESERVED:
            columns.setdefault(doc, name)
    return Registry(columns, frozenset(taken))


def may_be_column(path: str) -> bool:
    """Whether a path can stand in a column's doc. One that cannot always goes to `_overflow`."""
    return len(path.encode()) <= _DOC_BYTES and _ONE_LINE.fullmatch(path) is not None


def room(table: Registry, limit: int, policy: Policy) -> int:
    """How many new paths can matter: nobody needs to collect more of them than that."""
    if policy == "add":
        return max(0, limit - len(table.columns))
    return 0 if policy == "ignore" else 1


def extend(table: Registry, paths: Iterable[str], limit: int, policy: Policy) -> RegistryPlan:
    """What becomes of paths that were seen, in sorted order: the same however the batch was cut."""
    unknown = sorted(set(paths) - table.columns.keys())
    if policy == "fail":
        return RegistryPlan(refused=tuple(unknown))
    # The first ones only, even if one of them finds no name: more may not have been collected (see `room`).
    candidates = [path for path in unknown if may_be_column(path)][: room(table, limit, policy)]
    taken = set(table.taken)
    added: dict[str, str] = {}
    for path in candidates:
        name = _free_name(path, taken)
        if name is not None:
            taken.add(name)
            added[path] = name
    return RegistryPlan(
        tuple((name, path) for path, name in added.items()),
        tuple(path for path in unknown if path not in added),
    )


def column_name(path: str) -> str:
    """The name a path would like to have."""
    # Only ASCII is lower-cased: what Unicode calls lower case differs between versions of Python.
    name = _NOT_IN_NAMES.sub("_", "_".join(payload_path.segments(path))).lower()[:_NAME_LENGTH]
    return f"_{name}"[:_NAME_LENGTH] if not name or name[0].isdigit() else name


def _free_name(path: str, taken: set[str]) -> str | None:
    name = column_name(path)
    if name not in taken:
        return name
    digest = hashlib.sha256(path.encode()).hexdigest()
    # Whoever chooses keys can also choose `a_1234abcd`: then more of the digest, and in the end `_overflow`.
    suffixed = (f"{name[: _NAME_LENGTH - 1 - length]}_{digest[:length]}" for length in _SUFFIX_LENGTHS)
    return next((candidate for candidate in suffixed if candidate not in taken), None)
