"""Types of a contract: which there are, which may follow which, and which texts are exactly a value of one."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.schema import promote
from pyiceberg.types import IcebergType

from lean_ops.config.findings import UnfitError
from lean_ops.contracts.column_types import KINDS, MAX_PRECISION, ColumnType, TimestampFormat, is_exact, parse

DECIMALS = st.integers(1, MAX_PRECISION).flatmap(
    lambda precision: st.builds(ColumnType, st.just("decimal"), st.just(precision), st.integers(0, precision))
)
TYPES = st.sampled_from([ColumnType(kind) for kind in KINDS if kind != "decimal"]) | DECIMALS
# Numbers, and what is one character away from a number.
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
TEXTS = (
    NUMBERS | st.text(alphabet="0123456789.-+eE _\n٣", max_size=12) | st.integers(-(2**66), 2**66).map(str)
)


def json_number(text: str) -> int | Decimal | None:
    """The number that Python's JSON reader sees in a text that is nothing else, or None."""
    try:
        value = json.loads(text, parse_float=Decimal)
    except ValueError:
        return None
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return value if is_number and text == text.strip() else None


def iceberg(column_type: ColumnType) -> IcebergType:
    return IcebergType.model_validate(column_type.iceberg)


# ---------------------------------------------------------------- the types


@given(TYPES)
def test_a_type_is_read_back_from_its_own_name(column_type: ColumnType) -> None:
    assert parse(str(column_type)) == column_type


@given(TYPES)
def test_every_type_has_a_counterpart_that_iceberg_knows(column_type: ColumnType) -> None:
    assert str(iceberg(column_type)) == column_type.iceberg


def test_a_timestamp_is_an_instant() -> None:
    assert parse("timestamp").iceberg == "timestamptz"


@given(DECIMALS, DECIMALS)
def test_a_decimal_widens_by_precision_alone(old: ColumnType, new: ColumnType) -> None:
    assert old.widens_to(new) == (old.scale == new.scale and old.precision < new.precision)


def test_besides_decimals_only_an_int_widens() -> None:
    types = [ColumnType(kind) for kind in KINDS if kind != "decimal"] + [ColumnType("decimal", 38, 0)]
    assert [(str(old), str(new)) for old in types for new in types if old.widens_to(new)] == [
        ("int", "bigint")
    ]


@given(DECIMALS, st.integers(1, MAX_PRECISION))
@example(ColumnType("int"), 0)
def test_iceberg_promotes_whatever_is_said_to_widen(old: ColumnType, more: int) -> None:
    wider = ColumnType("decimal", min(old.precision + more, MAX_PRECISION), old.scale)
    new = wider if old.kind == "decimal" else ColumnType("bigint")
    assert old.widens_to(new) == (new != old)
    assert promote(iceberg(old), iceberg(new)) == iceberg(new)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("strng", "string"),
        ("String", "string"),
        ("Integer", "int"),
        ("timestmap", "timestamp"),
        ("decimal", "decimal(p,s)"),
        ("decimal(10)", "decimal(p,s)"),
        ("varchar(10)", ""),
        ("json", ""),
        ("", ""),
        ("int ", "int"),
        ("decimal(١٨,2)", "decimal(p,s)"),
    ],
)
def test_an_unknown_type_is_refused_with_the_nearest_one(text: str, meant: str) -> None:
    with pytest.raises(UnfitError, match="one of string, int, bigint") as refused:
        parse(text)
    assert refused.value.nearest == meant


@pytest.mark.parametrize("text", ["decimal(39,2)", "decimal(0,0)", "decimal(5,6)", "decimal(999,999)"])
def test_a_decimal_out_of_range_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ValueError, match=r"decimal\(p,s\) with 1 <= p <= 38 and 0 <= s <= p"):
        parse(text)


def test_blanks_inside_a_decimal_do_not_matter() -> None:
    assert str(parse("decimal( 18 , 2 )")) == "decimal(18,2)"


# ---------------------------------------------------------------- exact values


@given(TEXTS, st.sampled_from([("int", 31), ("bigint", 63)]))
@example("2147483648", ("int", 31))
@example("-2147483648", ("int", 31))
@example("9223372036854775808", ("bigint", 63))
def test_an_integer_is_exact_when_it_is_a_json_integer_in_range(text: str, kind: tuple[str, int]) -> None:
    name, bits = kind
    number = json_number(text)
    expected = isinstance(number, int) and -(2**bits) <= number < 2**bits
    assert is_exact(text, parse(name)) == expected


@given(TEXTS, DECIMALS)
@example("99999999999999999999999999999999999999", ColumnType("decimal", 38, 0))  # beyond a 28-digit context
@example("1.00000000000000000000000000000000001", ColumnType("decimal", 38, 2))
@example("0.000", ColumnType("decimal", 2, 2))
@example("-0", ColumnType("decimal", 1, 1))
@example("1E2", ColumnType("decimal", 3, 0))
@example("12.50", ColumnType("decimal", 3, 1))
@example("1.5e-1", ColumnType("decimal", 2, 2))
@example("15e-" + "0" * 300 + "1", ColumnType("decimal", 2, 1))
def test_a_decimal_is_exact_when_no_digit_is_lost(text: str, column_type: ColumnType) -> None:
    number = json_number(text)
    assert is_exact(text, column_type) == (number is not None and _fits(Decimal(number), column_type))


def _fits(number: Decimal, column_type: ColumnType) -> bool:
    exact = Context(prec=1000, traps=[Inexact, InvalidOperation])
    try:
        exact.quantize(number, Decimal(1).scaleb(-column_type.scale))
    except (Inexact, InvalidOperation):
        return False
    return number.copy_abs() < Decimal(10) ** (column_type.precision - column_type.scale)


@given(TEXTS)
def test_a_double_is_exact_when_it_is_a_finite_json_number(text: str) -> None:
    number = json_number(text)
    assert is_exact(text, parse("double")) == (number is not None and math.isfinite(float(number)))


@pytest.mark.parametrize("kind", ["int", "bigint", "double", "decimal(38,10)"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 100_000, id="digits"),
        "1e999999999999999999999",
        pytest.param("1e" + "9" * 5000, id="exponent"),
        "-1E400",
        "NaN",
        "Infinity",
        pytest.param("1" + "0" * 400, id="zeros"),
    ],
)
def test_a_hostile_number_is_no_value_of_any_type_and_costs_nothing(kind: str, text: str) -> None:
    assert not is_exact(text, parse(kind))


@pytest.mark.parametrize(
    "text", ["0e999999999999999999999", pytest.param("0." + "0" * 398, id="zeros"), "-0.0"]
)
def test_a_zero_is_a_zero_however_it_is_written(text: str) -> None:
    assert is_exact(text, parse("decimal(2,2)"))


def test_a_number_of_more_than_400_characters_is_none() -> None:
    for kind in ("double", "decimal(2,2)"):
        assert not is_exact("0." + "0" * 399, parse(kind))


@pytest.mark.parametrize("text", ["True", "TRUE", "1", "0", "yes", "", " true", "null"])
def test_a_boolean_is_true_or_false_and_nothing_like_them(text: str) -> None:
    assert not is_exact(text, parse("boolean"))
    assert is_exact("true", parse("boolean"))
    assert is_exact("false", parse("boolean"))


@given(st.text())
def test_any_text_is_a_string(text: str) -> None:
    assert is_exact(text, parse("string"))


@given(st.dates())
def test_every_date_of_the_calendar_is_one(day: date) -> None:
    assert is_exact(day.isoformat(), parse("date"))


@pytest.mark.parametrize(
    "text",
    ["2026-02-29", "2026-13-01", "2026-00-10", "0000-01-01", "2026-1-1", "20260131", "2026-W05-6", "31.01.2026",
     "2026-01-31T00:00:00Z", "2026-01-31 ", "\u0662026-01-31", "", "today"],
)  # fmt: skip
def test_what_is_no_date_of_the_calendar_is_refused(text: str) -> None:
    assert not is_exact(text, parse("date"))


OFFSETS = st.just(UTC) | st.integers(-18 * 60, 18 * 60).map(
    lambda minutes: timezone(timedelta(minutes=minutes))
)


@given(
    st.datetimes(timezones=OFFSETS),
    st.sampled_from(["T", " "]),
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
    st.data(),
)
def test_an_instant_is_exact_and_a_character_less_of_it_is_none(
    instant: datetime, separator: str, precision: str, data: st.DataObject
) -> None:
    text = instant.isoformat(sep=separator, timespec=precision)
    assert is_exact(text, parse("timestamp"))
    assert is_exact(text[: -len("+00:00")] + "Z", parse("timestamp"))
    cut = data.draw(st.integers(0, len("2026-01-31T12:00:00") - 1))
    assert not is_exact(text[:cut] + text[cut + 1 :], parse("timestamp"))


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:00:00", "2026-01-31T12:00Z", "2026-01-31T12:00:00.1234567Z", "2026-01-31T24:00:00Z",
     "2026-01-31T23:59:60Z", "2026-02-30T00:00:00Z", "2026-01-31T12:00:00+18:01", "2026-01-31T12:00:00+0100",
     "2026-01-31T12:00:00z", "2026-01-31T12:00:00 Z", "1769860800", ""],
)  # fmt: skip
def test_a_time_that_is_no_instant_is_refused(text: str) -> None:
    assert not is_exact(text, parse("timestamp"))


@pytest.mark.parametrize(
    ("text", "unit", "exact"),
    [
        ("1769860800", "epoch_seconds", True),
        ("1769860800000", "epoch_millis", True),
        ("1769860800000", "epoch_seconds", False),
        ("1769860800", "epoch_millis", False),
        ("-176986080", "epoch_seconds", False),
        ("1769860800.0", "epoch_seconds", False),
        ("1.7698608e9", "epoch_seconds", False),
        ("١٧٦٩٨٦٠٨٠٠", "epoch_seconds", False),
        ("2026-01-31T12:00:00Z", "epoch_millis", False),
    ],
)
def test_one_unit_of_epoch_time_is_never_taken_for_the_other(
    text: str, unit: TimestampFormat, exact: bool
) -> None:
    assert is_exact(text, parse("timestamp"), unit) is exact
