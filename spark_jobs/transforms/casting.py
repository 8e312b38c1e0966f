"""Texts as values: exactly, or not at all.

The forms are those of `lean_ops.contracts.column_types`, by which contracts are checked too. Spark's own casts
come after them only, because on their own they trim, round and guess.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from lean_ops.contracts import column_types
from lean_ops.contracts.column_types import ColumnType, TimestampFormat

_EPOCH = {"epoch_seconds": F.timestamp_seconds, "epoch_millis": F.timestamp_millis}


def exactly(text: Column, column_type: ColumnType, timestamp_format: TimestampFormat = "iso8601") -> Column:
    """The value of a text, or NULL when the text is not exactly one of the type."""
    match column_type.kind:
        case "string":
            return text
        case "boolean":
            return F.when(text == "true", F.lit(True)).when(text == "false", F.lit(False))
        case "int" | "bigint":
            return F.when(_short(text) & _is(text, column_types.INTEGER), text.try_cast(column_type.kind))
        case "double":
            value = text.try_cast("double")
            finite = F.abs(value) < float("inf")
            return F.when(_short(text) & _is(text, column_types.NUMBER) & finite, value)
        case "decimal":
            return _decimal(text, column_type)
        case "date":
            return F.when(_is(text, column_types.ISO_DATE) & _in_our_era(text), text.try_cast("date"))
        case "timestamp":
            if timestamp_format == "iso8601":
                known = _is(text, column_types.ISO_TIMESTAMP) & _in_our_era(text)
                return F.when(known, text.try_cast("timestamp"))
            epoch = _EPOCH[timestamp_format](text.try_cast("bigint"))
            return F.when(_is(text, column_types.EPOCH[timestamp_format]), epoch)


def _decimal(text: Column, column_type: ColumnType) -> Column:
    """Rounded by Spark only where nothing but zeros is cut off."""
    value = text.try_cast(str(column_type))
    fraction = rf"(?:\.(?=[0-9])[0-9]{{0,{column_type.scale}}}0*)?"
    plain = re.compile(rf"-?(?:0|[1-9][0-9]*){fraction}")
    return F.when(
        _short(text),
        F.when(_is(text, plain), value)
        .when(~_is(text, column_types.NUMBER), F.lit(None))
        .when(_significant(text) == "", F.lit(0).cast(str(column_type)))
        .when(_decimals(text) <= column_type.scale, value),
    )


def _significant(text: Column) -> Column:
    """The digits of a number from the first that is not zero to the last."""
    whole, fraction = (_part(text, group) for group in (1, 2))
    return F.regexp_replace(F.concat(whole, fraction), r"\A0+|0+\z", "")


def _decimals(text: Column) -> Column:
    """How many decimals a number with an exponent has when it is written without one; NULL for absurdly many."""
    whole, fraction, exponent = (_part(text, group) for group in (1, 2, 3))
    zeros_at_the_end = F.length(F.concat(whole, fraction)) - F.length(
        F.regexp_replace(F.concat(whole, fraction), r"0+\z", "")
    )
    shift = F.when(exponent == "", F.lit(0)).otherwise(exponent.try_cast("int"))
    return F.length(fraction) - zeros_at_the_end - shift


def _part(text: Column, group: int) -> Column:
    return F.regexp_extract(text, _anchored(column_types.NUMBER), group)


def _is(text: Column, form: re.Pattern[str]) -> Column:
    return text.rlike(_anchored(form))


def _anchored(form: re.Pattern[str]) -> str:
    # \z and not $, which would let a line feed pass.
    return rf"\A(?:{form.pattern})\z"


def _short(text: Column) -> Column:
    return F.length(text) <= column_types.NUMBER_LENGTH


def _in_our_era(text: Column) -> Column:
    return ~text.startswith("0000")
