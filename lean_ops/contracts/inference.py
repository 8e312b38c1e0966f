"""Guesses a contract from sample payloads: a stub for a person to review, every guess marked as one.

A guess holds for every record of the sample, and errs towards the wider type: text is never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lean_ops.contracts import column_types
from lean_ops.contracts.column_types import ColumnType, is_exact
from lean_ops.contracts.spec import MAX_COLUMNS, REQUIRED_ENVELOPE, RESERVED_NAMES
from lean_ops.naming import is_identifier, snake_case
from lean_ops.payload import payload_path
from lean_ops.payload.flatten import Kind, Leaf, leaves
from lean_ops.payload.periods import is_period

# Below 1.0: a guess is not a contract yet.
_VERSION = "0.1"
_NUMBERS = ("bigint", "decimal(38,2)", "decimal(38,6)", "decimal(38,10)", "double")
_TEXTS = ("date", "timestamp")
_PERSONAL = re.compile(r"e_?mail|phone|mobile|iban|passport|ssn|birth|first_?name|last_?name|address")


@dataclass
class _Seen:
    """What a path has held so far."""

    kinds: set[Kind] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    def add(self, leaf: Leaf) -> None:
        self.kinds.add(leaf.kind)
        self.texts.append(leaf.text)


@dataclass(frozen=True)
class Guess:
    """A contract and the topic's keys, as far as a sample tells them."""

    records: int
    contract: dict[str, Any]
    idempotency_key: str | None
    period_reference: str | None


def guess(topic: str, payloads: Iterable[str | bytes]) -> Guess:
    """The guess that a sample of payloads leads to; those that are no JSON object say nothing."""
    found: dict[str, _Seen] = {}
    records = 0
    for payload in payloads:
        record = leaves(payload)
        if isinstance(record, dict):
            records += 1
            for path, leaf in record.items():
                found.setdefault(path, _Seen()).add(leaf)
    key = _key(found, records)
    period = next((path for path, seen in sorted(found.items()) if all(map(is_period, seen.texts))), None)
    columns = _columns(found, records, key)
    contract = {
        "$schema": "../_contract.schema.json",
        "table_name": topic,
        "version": _VERSION,
        "description": f"A guess from {records} records: review every name, type, cde and pii, then say 1.0.",
        "envelope_columns": list(REQUIRED_ENVELOPE),
        "payload_columns": columns,
    }
    return Guess(records, contract, key, period)


def _columns(found: dict[str, _Seen], records: int, key: str | None) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = []
    taken = set(RESERVED_NAMES)
    for path, seen in sorted(found.items()):
        name = _name(path, taken)
        if not is_identifier(name) or not _may_be_column(path, found) or len(columns) == MAX_COLUMNS:
            continue
        taken.add(name)
        personal = path != key and _PERSONAL.search(name) is not None
        columns.append(_column(name, path, seen, records, personal=personal))
    return columns


def _may_be_column(path: str, found: dict[str, _Seen]) -> bool:
    """Whether a contract could name the path: not inside a path that other records have a value for."""
    keys = payload_path.segments(path)
    above = {payload_path.join(keys[:depth]) for depth in range(1, len(keys))}
    return len(path) <= payload_path.MAX_LENGTH and not above & found.keys()


def _column(name: str, path: str, seen: _Seen, records: int, *, personal: bool) -> dict[str, Any]:
    description = f"A guess: in {len(seen.texts)} of {records} records."
    if personal:
        # Stored as a hash until somebody says otherwise: the other mistake could not be undone.
        return {
            "name": name, "path": path, "type": "string", "pii": True,
            "description": f"{description} Looks like personal data.",
        }  # fmt: skip
    return {"name": name, "path": path, "type": str(_type(seen)), "description": description}


def _name(path: str, taken: set[str]) -> str:
    name = snake_case(path, 200)
    number = 2
    while name in taken:
        name, number = f"{snake_case(path, 200)}_{number}", number + 1
    return name


def _type(seen: _Seen) -> ColumnType:
    """The first type that every text of the sample is exactly a value of."""
    candidates: Sequence[str] = ()
    if seen.kinds == {"number"}:
        candidates = _NUMBERS
    elif seen.kinds == {"boolean"}:
        candidates = ("boolean",)
    elif seen.kinds == {"string"}:
        candidates = _TEXTS
    for candidate in map(column_types.parse, candidates):
        if all(is_exact(text, candidate) for text in seen.texts):
            return candidate
    return column_types.parse("string")


def _key(found: dict[str, _Seen], records: int) -> str | None:
    """The shortest path that every record has, each time with another value, and that is called like a key."""
    fitting = [
        path
        for path, seen in found.items()
        if len(seen.texts) == records > 1
        and len(set(seen.texts)) == records
        and re.search(r"(^|_)(id|key|uuid|number|no)$", snake_case(path, 200)) is not None
    ]
    return min(fitting, key=lambda path: (len(path), path), default=None)
