"""The types a contract may use, what Iceberg calls them, and whether a text is exactly a value of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from lean_ops.config.findings import UnfitError, nearest

Kind = Literal["string", "int", "bigint", "double", "boolean", "decimal", "date", "timestamp"]
KINDS: tuple[Kind, ...] = ("string", "int", "bigint", "double", "boolean", "decimal", "date", "timestamp")
TimestampFormat = Literal["iso8601", "epoch_seconds", "epoch_millis"]

MAX_PRECISION = 38
_DECIMAL = re.compile(r"decimal\( *([0-9]{1,3}) *, *([0-9]{1,3}) *\)")
PATTERN = r"^(string|int|bigint|double|boolean|date|timestamp|decimal\( *[0-9]{1,3} *, *[0-9]{1,3} *\))$"
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
_INTEGER_LENGTH = len(str(-(2**63)))
# No number that means anything is longer; reading millions of digits would take every reader minutes.
NUMBER_LENGTH = 400

# [0-9] and not \d: Python counts the digits of every script, Spark those of ASCII.
INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Java knows no offset beyond 18 hours.
_OFFSET = r"(Z|[+-]((0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
ISO_TIMESTAMP = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?{_OFFSET}"
)
# As many digits as an instant between 2001 and 2286 has, so that one unit is never taken for the other.
EPOCH = {"epoch_seconds": re.compile(r"[0-9]{10}"), "epoch_millis": re.compile(r"[0-9]{13}")}


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
        names = [kind if kind != "decimal" else "decimal(p,s)" for kind in KINDS]
        raise UnfitError(f"one of {', '.join(names)}", nearest(text, names))
    precision, scale = int(match.group(1)), int(match.group(2))
    if not (1 <= precision <= MAX_PRECISION and scale <= precision):
        raise ValueError(f"decimal(p,s) with 1 <= p <= {MAX_PRECISION} and 0 <= s <= p")
    return ColumnType("decimal", precision, scale)


def is_exact(text: str, column_type: ColumnType, timestamp_format: TimestampFormat = "iso8601") -> bool:
    """Whether the text is a value of the type as it stands: nothing trimmed, rounded or guessed.

    A double takes the nearest number there is, as every reader of JSON does, but never infinity.
    """
    kind = column_type.kind
    if kind == "string":
        return True
    if kind in _INTEGER_BITS:
        return _fits_integer(text, _INTEGER_BITS[kind])
    if kind == "double":
        return _is_number(text) and abs(float(text)) != float("inf")
    if kind == "boolean":
        return text in ("true", "false")
    if kind == "decimal":
        return _fits_decimal(text, column_type)
    if kind == "date":
        return ISO_DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)
    if timestamp_format == "iso8601":
        return ISO_TIMESTAMP.fullmatch(text) is not None and _parses(datetime.fromisoformat, text)
    return EPOCH[timestamp_format].fullmatch(text) is not None


def _fits_integer(text: str, bits: int) -> bool:
    # The length comes first: Python refuses to convert thousands of digits.
    if len(text) > _INTEGER_LENGTH or INTEGER.fullmatch(text) is None:
        return False
    return -(1 << bits) <= int(text) < (1 << bits)


def _is_number(text: str) -> bool:
    return len(text) <= NUMBER_LENGTH and NUMBER.fullmatch(text) is not None


def _fits_decimal(text: str, column_type: ColumnType) -> bool:
    # Counts digits instead of computing, so that neither a rounding context nor a hostile exponent matters.
    match = NUMBER.fullmatch(text) if _is_number(text) else None
    if match is None:
        return False
    whole: str = match[1]
    digits = (whole + (match[2] or "")).rstrip("0")
    significant = digits.lstrip("0")
    if not significant:
        return True
    exponent: str = match[3] or "0"
    magnitude = exponent.lstrip("+-0")
    if len(magnitude) > 9:
        return False
    point = len(whole) + int(magnitude or "0") * (-1 if exponent.startswith("-") else 1)
    before_point = point - (len(digits) - len(significant))
    after_point = len(digits) - point
    return before_point <= column_type.precision - column_type.scale and after_point <= column_type.scale


def _parses(parser: Callable[[str], object], text: str) -> bool:
    try:
        parser(text)
    except ValueError:
        return False
    return True
