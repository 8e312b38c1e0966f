"""Standardized rows under a contract: typed values, and everything that is wrong with a row in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops.contracts import violations as rules
from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from lean_ops.contracts.violations import Code
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from spark_jobs.transforms import casting

# Beginning like no column of a contract can. All violations as JSON, and of the first one code, column and rule.
VIOLATIONS = "_violations"
FIRST_VIOLATION = {"_error_code": "code", "_column_name": "column", "_rule": "rule"}
CDE_VIOLATED = "_cde_violated"
_IDENTIFYING = ("message_id", "publish_time", "period_reference")


@dataclass(frozen=True)
class Places:
    """Where the payload's paths are in a Standardized table."""

    columns: Mapping[str, str]
    overflow: bool

    def needed(self, contract: ContractSpec) -> list[str]:
        """The columns that a contract's paths are in, besides the envelope."""
        paths = (column.payload_path for column in contract.payload_columns)
        own = [self.columns[path] for path in paths if path in self.columns]
        return [*own, OVERFLOW] if self.overflow else own

    def text(self, path: str) -> Column:
        """The text at a path, wherever it landed: in a column of its own, or in `_overflow`."""
        own = F.col(f"`{self.columns[path]}`") if path in self.columns else F.lit(None).cast("string")
        if not self.overflow:
            return own
        spilled = F.from_json(F.col(OVERFLOW), "map<string,string>")[path]
        return F.when(own.isNull() & F.col(OVERFLOW).isNotNull(), spilled).otherwise(own)


def validated(rows: DataFrame, contract: ContractSpec, places: Places) -> DataFrame:
    """Envelope and typed columns; `_violations` is NULL for a valid row, else JSON that names all of them.

    A PII column still has its clear text here: `pii` replaces it before anything is written.
    """
    needed = {column.payload_path for column in contract.payload_columns}
    where = tuple((path, name) for path, name in places.columns.items() if path in needed)
    for stage in _stages(contract, where, overflow=places.overflow):
        rows = rows.select(*stage)
    return rows


@lru_cache(maxsize=256)
def _stages(
    contract: ContractSpec, where: tuple[tuple[str, str], ...], *, overflow: bool
) -> tuple[tuple[Column | str, ...], ...]:
    """Texts, then values, then violations. Kept, because making them takes longer than a small batch does."""
    columns, places = contract.payload_columns, Places(dict(where), overflow)
    texts = (_text(column, places).alias(_t(i)) for i, column in enumerate(columns))
    values = (
        casting.exactly(F.col(_t(i)), column.column_type, column.timestamp_format).alias(column.name)
        for i, column in enumerate(columns)
    )
    found = [_key_violation(), *(v for i, column in enumerate(columns) for v in _of_column(column, i))]
    first = F.coalesce(*(violation for _, violation in found))
    cde = [violation.isNotNull() for code, violation in found if code == "CDE_MISSING"]
    listed = F.to_json(F.array_compact(F.array(*(violation for _, violation in found))))
    return (
        (*ENVELOPE, *texts),
        ("*", *values),
        (
            *ENVELOPE,
            *(column.name for column in columns),
            F.when(first.isNotNull(), listed).alias(VIOLATIONS),
            *(first[part].alias(name) for name, part in FIRST_VIOLATION.items()),
            (F.greatest(*cde, F.lit(False)) if cde else F.lit(False)).alias(CDE_VIOLATED),
        ),
    )


def invalid(checked: DataFrame) -> DataFrame:
    """The invalid rows of a validated frame, as the error log takes them."""
    wrong = checked.where(F.col(VIOLATIONS).isNotNull())
    return wrong.select(
        *_IDENTIFYING, *(F.col(name).alias(name[1:]) for name in (VIOLATIONS, *FIRST_VIOLATION))
    )


def invalid_table(checked: pa.Table) -> pa.Table:
    """The same of a frame that was collected."""
    names = [*_IDENTIFYING, VIOLATIONS, *FIRST_VIOLATION]
    wrong = checked.filter(checked[VIOLATIONS].is_valid()).select(names)
    return wrong.rename_columns([name.removeprefix("_") for name in names])


def _t(index: int) -> str:
    return f"_text_{index}"


def _text(column: ColumnSpec, places: Places) -> Column:
    text = places.text(column.payload_path)
    return text if column.default is None else F.coalesce(text, F.lit(column.default))


def _key_violation() -> tuple[Code, Column]:
    missing = F.coalesce(F.col(rules.KEY_COLUMN) == "", F.lit(True))
    return _violation(missing, "MISSING_KEY", rules.KEY_COLUMN, rules.KEY_RULE, F.lit(None).cast("string"))


def _of_column(column: ColumnSpec, index: int) -> list[tuple[Code, Column]]:
    text = F.col(_t(index))
    shown = F.lit(rules.MASKED) if column.pii else F.substring(text, 1, rules.VALUE_LENGTH)
    value = F.when(text.isNotNull(), shown)
    wrong, found = text.isNotNull() & F.col(column.name).isNull(), []
    if column.cde:
        blank = F.coalesce(text.rlike(r"(?U)\A\s*\z"), F.lit(True))
        wrong = wrong & ~blank
        found.append(_violation(blank, "CDE_MISSING", column.name, "cde", value))
    elif column.required:
        found.append(_violation(text.isNull(), "NOT_NULL", column.name, "not null", value))
    if column.column_type.kind != "string":
        found.append(_violation(wrong, "WRONG_TYPE", column.name, rules.type_rule(column), value))
    return found


def _violation(condition: Column, code: Code, column: str, rule: str, value: Column) -> tuple[Code, Column]:
    named = {"code": F.lit(code), "column": F.lit(column), "rule": F.lit(rule), "value": value}
    return code, F.when(condition, F.struct(*(part.alias(name) for name, part in named.items())))
