"""Texts as values: exactly, or not at all.

`lean_ops.contracts.column_types` says what is exactly a value, text by text; contracts are checked by it too. Here
whole columns become values: the usual spellings at once, which is all that almost every record has, and whatever
is left by that very definition.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lean_ops.contracts import column_types
from lean_ops.contracts.column_types import ColumnType, TimestampFormat
from lean_ops.identity import to_micros

TEXT = pa.large_string()
INSTANT = pa.timestamp("us", tz="UTC")
_TYPES = {
    "string": TEXT,
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": INSTANT,
}
_MICROS = {"epoch_seconds": 1_000_000, "epoch_millis": 1_000}

# Every text of these forms is a value, and Arrow reads it as that value. The 29th of February is for the definition.
_DAY = (
    "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_TIME = (
    "[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])"
)
_USUAL = {
    "int": "-?(?:0|[1-9][0-9]{0,8})",
    "bigint": "-?(?:0|[1-9][0-9]{0,17})",
    "double": "-?(?:0|[1-9][0-9]{0,29})(?:[.][0-9]{1,30})?",
    "boolean": "true|false",
    "date": _DAY,
    "timestamp": _DAY + _TIME,
}


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """What a contract's type is in Arrow."""
    if column_type.kind == "decimal":
        return pa.decimal128(column_type.precision, column_type.scale)
    return _TYPES[column_type.kind]


def exactly(
    texts: pa.Array, column_type: ColumnType, timestamp_format: TimestampFormat = "iso8601"
) -> pa.Array:
    """The values of the texts, NULL where a text is not exactly one of the type."""
    if column_type.kind == "string":
        return texts
    if timestamp_format in _MICROS:
        digits = _only(texts, matching(texts, column_types.EPOCH[timestamp_format].pattern))
        return pc.multiply(digits.cast(pa.int64()), _MICROS[timestamp_format]).cast(INSTANT)
    usual = matching(texts, _usual(column_type))
    values = _only(texts, usual).cast(arrow_type(column_type))
    rest = pc.and_(texts.is_valid(), pc.invert(usual))
    if not pc.any(rest).as_py():
        return values
    unusual = texts.filter(rest).dictionary_encode()
    judged = [_value(text, column_type) for text in unusual.dictionary.to_pylist()]
    whole = pa.int64() if column_type.kind == "timestamp" else values.type
    return pc.replace_with_mask(values, rest, pa.array(judged, whole).cast(values.type).take(unusual.indices))


def matching(texts: pa.Array, form: str) -> pa.Array:
    """Which texts have the form from their first character to their last; NULL has none."""
    return pc.fill_null(pc.match_substring_regex(texts, rf"\A(?:{form})\z"), False)


def _only(texts: pa.Array, these: pa.Array) -> pa.Array:
    return pc.if_else(these, texts, pa.scalar(None, texts.type))


def _usual(column_type: ColumnType) -> str:
    if column_type.kind != "decimal":
        return _USUAL[column_type.kind]
    before, after = column_type.precision - column_type.scale, column_type.scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return f"-?{whole}" + (f"(?:[.][0-9]{{1,{after}}})?" if after else "")


def _value(text: str, column_type: ColumnType) -> Any:
    """A text as a value, if it is one; instants in microseconds, because not all of them have a datetime in UTC."""
    if not column_types.is_exact(text, column_type):
        return None
    if column_type.kind == "decimal":
        return _decimal(text, column_type.scale)
    read: dict[str, Callable[[str], Any]] = {
        "int": int,
        "bigint": int,
        "double": float,
        "date": date.fromisoformat,
        "timestamp": _micros,
    }
    return read[column_type.kind](text)


def _decimal(text: str, scale: int) -> Decimal:
    digits = text.lower().partition("e")[0]
    if not digits.strip("-0."):
        return Decimal(0)  # whatever its exponent
    return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=Context(prec=column_types.MAX_PRECISION))


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("an instant has an offset")
    return to_micros(moment.replace(tzinfo=UTC)) - offset // timedelta(microseconds=1)
