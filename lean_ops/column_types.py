"""The types a contract may use, what Iceberg calls them, and whether a text is exactly a value of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Kind = Literal["string", "int", "bigint", "double", "boolean", "decimal", "date", "timestamp"]
KINDS: tuple[Kind, ...] = ("string", "int", "bigint", "double", "boolean", "decimal", "date", "timestamp")
TimestampFormat = Literal["iso8601", "epoch_seconds", "epoch_millis"]

MAX_PRECISION = 38
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
PATTERN = r"^(string|int|bigint|double|boolean|date|timestamp|decimal\(\s*\d+\s*,\s*\d+\s*\))$"
_ICEBERG = {
    "string": "string",
    "int": "int",
    "bigint": "long",
    "double": "double",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamptz",
}
_INTEGER_BITS = {"int": 31, "bigint": 63}

INTEGER = re.compile(r"-?(0|[1-9]\d*)")
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
ISO_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})")


@dataclass(frozen=True)
class ColumnType:
    """A contract type; precision and scale are those of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind

    @property
    def iceberg(self) -> str:
        """The type as Iceberg writes it. Timestamps are instants: always with time zone."""
        if self.kind == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return _ICEBERG[self.kind]

    def widens_to(self, other: ColumnType) -> bool:
        """Whether Iceberg may change this type to the other in place, keeping every stored value."""
        if (self.kind, other.kind) == ("int", "bigint"):
            return True
        return (
            self.kind == other.kind == "decimal"
            and self.scale == other.scale
            and self.precision < other.precision
        )


def parse(text: str) -> ColumnType:
    """The type a contract names. Raises ValueError with what is expected instead."""
    if text in KINDS and text != "decimal":
        return ColumnType(text)
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"one of {', '.join(kind for kind in KINDS if kind != 'decimal')}, decimal(p,s)")
    precision, scale = int(match.group(1)), int(match.group(2))
    if not (1 <= precision <= MAX_PRECISION and scale <= precision):
        raise ValueError(f"decimal(p,s) with 1 <= p <= {MAX_PRECISION} and 0 <= s <= p")
    return ColumnType("decimal", precision, scale)


def is_exact(text: str, column_type: ColumnType, timestamp_format: TimestampFormat = "iso8601") -> bool:
    """Whether the text is a value of the type as it stands: nothing trimmed, rounded or guessed."""
    kind = column_type.kind
    if kind == "string":
        return True
    if kind in _INTEGER_BITS:
        bound = 2 ** _INTEGER_BITS[kind]
        return INTEGER.fullmatch(text) is not None and -bound <= int(text) < bound
    if kind == "double":
        return NUMBER.fullmatch(text) is not None and abs(float(text)) != float("inf")
    if kind == "boolean":
        return text in ("true", "false")
    if kind == "decimal":
        return _fits_decimal(text, column_type)
    if kind == "date":
        return ISO_DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)
    if timestamp_format == "iso8601":
        return ISO_TIMESTAMP.fullmatch(text) is not None and _parses(datetime.fromisoformat, text)
    return re.fullmatch(r"\d{10}" if timestamp_format == "epoch_seconds" else r"\d{13}", text) is not None


def _fits_decimal(text: str, column_type: ColumnType) -> bool:
    # The length guard keeps a hostile exponent from being expanded into a billion digits.
    if NUMBER.fullmatch(text) is None or len(text) > 100:
        return False
    exponent_text = re.split("[eE]", text)[-1] if re.search("[eE]", text) else "0"
    if abs(int(exponent_text)) > 100:
        return False
    sign_digits_exponent = Decimal(text).normalize().as_tuple()
    exponent = sign_digits_exponent.exponent
    if not isinstance(exponent, int):
        return False
    whole = len(sign_digits_exponent.digits) + exponent
    return -exponent <= column_type.scale and whole <= column_type.precision - column_type.scale


def _parses(parser: object, text: str) -> bool:
    try:
        parser(text)  # type: ignore[operator]
    except ValueError:
        return False
    return True
