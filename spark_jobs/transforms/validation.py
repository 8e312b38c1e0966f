"""Standardized rows under a contract: typed values, and everything that is wrong with a row in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lean_ops.contracts import violations as rules
from lean_ops.contracts.spec import ColumnSpec, ContractSpec
from lean_ops.contracts.violations import Code
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from spark_jobs.transforms import casting

VIOLATIONS = "_violations"
CDE_VIOLATED = "_cde_violated"


@dataclass(frozen=True)
class Places:
    """Where the payload's paths are in a Standardized table."""

    columns: Mapping[str, str]
    overflow: bool

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
    columns = contract.payload_columns
    texts = rows.select(*ENVELOPE, *(_text(column, places).alias(_t(i)) for i, column in enumerate(columns)))
    cast = texts.select(
        "*",
        *(
            casting.exactly(F.col(_t(i)), column.column_type, column.timestamp_format).alias(column.name)
            for i, column in enumerate(columns)
        ),
    )
    found = [_key_violation(), *(v for i, column in enumerate(columns) for v in _of_column(column, i))]
    any_violation = F.coalesce(*(violation for _, violation in found)).isNotNull()
    cde = [violation.isNotNull() for code, violation in found if code == "CDE_MISSING"]
    listed = F.to_json(F.array_compact(F.array(*(violation for _, violation in found))))
    return cast.select(
        *ENVELOPE,
        *(column.name for column in columns),
        F.when(any_violation, listed).alias(VIOLATIONS),
        (F.greatest(*cde, F.lit(False)) if cde else F.lit(False)).alias(CDE_VIOLATED),
    )


def _t(index: int) -> str:
    # Beginning like no column of a contract can.
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
