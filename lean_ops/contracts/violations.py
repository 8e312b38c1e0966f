"""What a record can do wrong under a contract: codes made to be aggregated, the same wherever they appear."""

from __future__ import annotations

from typing import Final, Literal

from lean_ops.contracts.spec import ColumnSpec

Code = Literal["MISSING_KEY", "CDE_MISSING", "NOT_NULL", "WRONG_TYPE"]

KEY_COLUMN: Final = "idempotency_key"
KEY_RULE: Final = "a key that is not empty"
# Enough to recognise a value; a whole one may be megabytes.
VALUE_LENGTH: Final = 100
MASKED: Final = "***"


def type_rule(column: ColumnSpec) -> str:
    """The rule that a text of the wrong type breaks, as the error row names it."""
    if column.column_type.kind == "timestamp":
        return f"{column.type} ({column.timestamp_format})"
    return column.type
