"""What a text is worth under a contract's type, a second time: Python's decimal and datetime, no pattern of lean_ops.

Instants are microseconds since the epoch: with an offset, the first and the last hours of the calendar lie in years
that Python has no datetime for.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from tests.flatten_oracle import judge

Value = str | int | float | bool | Decimal | date | None

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
BITS = {"int": 31, "bigint": 63}
LONGEST_NUMBER = 400
DIGITS = frozenset("0123456789")
UNITS = {"epoch_seconds": (10, 1_000_000), "epoch_millis": (13, 1000)}


class NotOfTypeError(Exception):
    """The text is no value of the type."""


def cast(text: str, type_name: str, timestamp_format: str = "iso8601") -> Value:
    """The value; nothing is trimmed, rounded or guessed on the way."""
    if type_name == "string":
        return text
    if type_name in BITS:
        return _integer(text, BITS[type_name])
    if type_name == "double":
        return _double(text)
    if type_name == "boolean":
        _require(text in ("true", "false"))
        return text == "true"
    if type_name == "date":
        return _date(text)
    if type_name == "timestamp":
        return _instant(text) if timestamp_format == "iso8601" else _epoch(text, *UNITS[timestamp_format])
    precision, scale = type_name.removeprefix("decimal(").removesuffix(")").split(",")
    return _decimal(text, int(precision), int(scale))


def _require(fact: bool) -> None:
    if not fact:
        raise NotOfTypeError


def _require_json_number(text: str) -> None:
    _require(len(text) <= LONGEST_NUMBER)
    _require(judge(f'{{"n":{text}}}') == {"n": ("number", text)})


def _integer(text: str, bits: int) -> int:
    _require_json_number(text)
    _require(not set(text) & set(".eE") and len(text) < 30)
    _require(-(2**bits) <= int(text) < 2**bits)
    return int(text)


def _double(text: str) -> float:
    _require_json_number(text)
    _require(float(text) not in (float("inf"), float("-inf")))
    return float(text)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    _require_json_number(text)
    mantissa, _, power = text.lower().partition("e")
    sign, digits, exponent = Decimal(mantissa).as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return Decimal(0).scaleb(-scale)
    power_sign = -1 if power.startswith("-") else 1
    power = power.lstrip("+-").lstrip("0")
    _require(len(power) < 10)
    exponent += power_sign * int(power or "0")
    while digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    while digits[0] == 0:
        digits = digits[1:]
    _require(exponent >= -scale and len(digits) + exponent <= precision - scale)
    return Decimal((sign, digits + (0,) * (exponent + scale), -scale))


def _date(text: str) -> date:
    _require(len(text) == 10 and text[4] == text[7] == "-")
    year, month, day = (_number(part) for part in (text[:4], text[5:7], text[8:]))
    try:
        return date(year, month, day)
    except ValueError:
        raise NotOfTypeError from None


def _instant(text: str) -> int:
    day, time, rest = _date(text[:10]), text[11:19], text[19:]
    _require(len(time) == 8 and text[10] in "T " and time[2] == time[5] == ":")
    hour, minute, second = (_number(part) for part in (time[:2], time[3:5], time[6:]))
    _require(hour < 24 and minute < 60 and second < 60)
    micros = 0
    if rest.startswith("."):
        fraction = rest[1 : len(rest) - len(rest[1:].lstrip("0123456789"))]
        _require(1 <= len(fraction) <= 6)
        micros, rest = _number(fraction.ljust(6, "0")), rest[1 + len(fraction) :]
    seconds = (hour * 60 + minute) * 60 + second - _offset_minutes(rest) * 60
    days = (day - EPOCH.date()).days
    return (days * 86_400 + seconds) * 1_000_000 + micros


def _offset_minutes(text: str) -> int:
    if text == "Z":
        return 0
    _require(len(text) == 6 and text[0] in "+-" and text[3] == ":")
    hours, minutes = _number(text[1:3]), _number(text[4:])
    # As far as Java's offsets go.
    _require(minutes < 60 and hours * 60 + minutes <= 18 * 60)
    return (hours * 60 + minutes) * (-1 if text[0] == "-" else 1)


def _epoch(text: str, length: int, micros: int) -> int:
    _require(len(text) == length)
    return _number(text) * micros


def _number(text: str) -> int:
    _require(bool(text) and set(text) <= DIGITS)
    return int(text)
