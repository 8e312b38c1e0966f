"""Standardized rows under a contract: typed values, and everything that is wrong with a row in one place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lean_ops.contracts import violations as rules
from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from lean_ops.contracts.violations import Code
from lean_ops.payload.columns import OVERFLOW
from spark_jobs.transforms import pii
from spark_jobs.transforms.casting import TEXT, exactly

Mask = npt.NDArray[np.bool_]
_IDENTIFYING = ("message_id", "publish_time", "period_reference")
_FIRST_VIOLATION = {"error_code": "code", "column_name": "column", "rule": "rule"}
_VISIBLE = "[!-~]"


@dataclass(frozen=True)
class Places:
    """Where the payload's paths are in a Standardized table."""

    columns: Mapping[str, str]
    overflow: bool

    def needed(self, contract: ContractSpec) -> list[str]:
        """The columns that a contract's paths are in, besides the envelope."""
        paths = (column.payload_path for column in contract.payload_columns)
        own = list(dict.fromkeys(self.columns[path] for path in paths if path in self.columns))
        return [*own, OVERFLOW] if self.overflow else own


@dataclass(frozen=True)
class Checked:
    """Rows with their values by column of the contract. `violations` is JSON that names all of a row's, or NULL."""

    rows: pa.Table
    values: Mapping[str, pa.Array]
    violations: pa.Array
    wrong: Mask
    cde_violations: int

    def invalid(self) -> pa.Table:
        """The invalid rows, as the error log takes them."""
        rows = self.rows.select(_IDENTIFYING).filter(pa.array(self.wrong))
        told = self.violations.filter(pa.array(self.wrong))
        first = [msgspec.json.decode(text)[0] for text in told.to_pylist()]
        for name, part in _FIRST_VIOLATION.items():
            rows = rows.append_column(name, pa.array([each[part] for each in first], TEXT))
        return rows.append_column("violations", told)


class _Breach(NamedTuple):
    """The rows that break one rule, and the texts they break it with, as far as anybody may see those."""

    code: Code
    column: str
    rule: str
    rows: Mask
    texts: pa.Array | None = None

    def told(self) -> Iterator[tuple[int, dict[str, str]]]:
        rows = np.flatnonzero(self.rows)
        named = {"code": self.code, "column": self.column, "rule": self.rule}
        texts = [None] * len(rows) if self.texts is None else self.texts.take(pa.array(rows)).to_pylist()
        for row, text in zip(rows.tolist(), texts, strict=True):
            yield row, named if text is None else named | {"value": text[: rules.VALUE_LENGTH]}


def validated(rows: pa.Table, contract: ContractSpec, places: Places, key: bytes | None = None) -> Checked:
    """The rows' values and violations. With a key, personal values are hashed; without one they are in clear."""
    texts = {column.name: text for column, text in _texts(rows, contract, places)}
    values, breaches = {}, [_missing_keys(rows)]
    for column in contract.payload_columns:
        text = texts[column.name]
        value = exactly(text, column.column_type, column.timestamp_format)
        breaches += _breaches(column, text, value)
        values[column.name] = pii.keyed_hashes(text, key) if column.pii and key else value
    wrong = np.logical_or.reduce([breach.rows for breach in breaches])
    cde = [breach.rows for breach in breaches if breach.code == "CDE_MISSING"]
    lacking = int(np.logical_or.reduce(cde).sum()) if cde else 0
    return Checked(rows, values, _as_json(breaches, len(rows)), wrong, lacking)


def _texts(rows: pa.Table, contract: ContractSpec, places: Places) -> Iterator[tuple[ColumnSpec, pa.Array]]:
    """The text of each column, wherever its path landed: in a column of its own, or in `_overflow`."""
    nothing = pa.nulls(len(rows), TEXT)
    spilled = _spilled(rows) if places.overflow else {}
    for column in contract.payload_columns:
        path = column.payload_path
        text = _column(rows, places.columns[path]) if path in places.columns else nothing
        found = {row: leaves[path] for row, leaves in spilled.items() if path in leaves}
        if found:
            other: list[str | None] = [None] * len(rows)
            for row, leaf in found.items():
                other[row] = leaf
            text = pc.coalesce(text, pa.array(other, TEXT))
        yield column, text if column.default is None else pc.fill_null(text, column.default)


def _spilled(rows: pa.Table) -> dict[int, dict[str, str]]:
    texts = _column(rows, OVERFLOW)
    some = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    leaves = texts.take(pa.array(some)).to_pylist()
    return {
        row: msgspec.json.decode(text, type=dict[str, str])
        for row, text in zip(some.tolist(), leaves, strict=True)
    }


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].cast(TEXT).combine_chunks()


def _missing_keys(rows: pa.Table) -> _Breach:
    missing = pc.fill_null(pc.equal(_column(rows, rules.KEY_COLUMN), ""), True)
    return _Breach("MISSING_KEY", rules.KEY_COLUMN, rules.KEY_RULE, _mask(missing))


def _breaches(column: ColumnSpec, text: pa.Array, value: pa.Array) -> list[_Breach]:
    shown = pc.if_else(text.is_valid(), rules.MASKED, pa.scalar(None, TEXT)) if column.pii else text
    wrong, found = _mask(pc.and_(text.is_valid(), value.is_null())), []
    if column.cde:
        blank = _blank(text)
        wrong &= ~blank
        found.append(_Breach("CDE_MISSING", column.name, "cde", blank, shown))
    elif column.required:
        found.append(_Breach("NOT_NULL", column.name, "not null", _mask(text.is_null())))
    if column.column_type.kind != "string":
        found.append(_Breach("WRONG_TYPE", column.name, rules.type_rule(column), wrong, shown))
    return found


def _blank(text: pa.Array) -> Mask:
    """Absent, or nothing but white space. Almost every text has a visible character of ASCII."""
    blank = ~_mask(pc.fill_null(pc.match_substring_regex(text, _VISIBLE), False))
    doubtful = np.flatnonzero(blank)
    blank[doubtful] = [not (each or "").strip() for each in text.take(pa.array(doubtful)).to_pylist()]
    return blank


def _as_json(breaches: list[_Breach], rows: int) -> pa.Array:
    """All breaches of each row in the order of the contract."""
    told: dict[int, list[dict[str, str]]] = defaultdict(list)
    for breach in breaches:
        for row, violation in breach.told():
            told[row].append(violation)
    texts: list[str | None] = [None] * rows
    for row, violations in told.items():
        texts[row] = msgspec.json.encode(violations).decode()
    return pa.array(texts, TEXT)


def _mask(values: pa.Array) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
