"""Every text under every type is exactly the value that Python's decimal and datetime say, or no value at all."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest

from lean_ops.contracts import column_types
from lean_ops.contracts.column_types import is_exact
from lean_ops.contracts.spec import ContractSpec
from spark_jobs.transforms import casting
from spark_jobs.transforms.validation import Places, validated
from tests.spark.casting_oracle import EPOCH, MICROSECOND, NotOfTypeError, Value, cast


def words(text: str) -> list[str]:
    return text.split()


INTEGERS = words(f"""
0 -0 7 -7 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808
-9223372036854775808 -9223372036854775809 {"9" * 38} {"9" * 39} 1{"0" * 38} {"1" * 400} {"1" * 401}
""")
FRACTIONS = words(f"""
1.0 1. .5 0.10 1.239 1.230 1.23{"0" * 40} -0.0 0.005 99.99 99.995 99999999.99 99999999.999 100000000.00 0.1
12345678901234567890.0123456789 1.7976931348623157e308 1.7976931348623159e308 4.9e-324 2e-324 1e-400 1e400 -1e400
1e309 0.{"0" * 50}1 0.{"0" * 380}1 100000000000.50
""")
EXPONENTS = words(f"""
1E2 1e2 1E+2 1e-2 1e-3 12.50e1 1.5e-1 0E9 0e-99 0E999999999999 -0E5 1E400 100e-2 1E 1e+ e5 1E2.5 0.001E3
1e0000000002 1000000000e-9 5e37 5e38 1e-38 1e-39 1e99999999999999999999 1e-99999999999999999999 1e2147483648
0.0001e{"0" * 300}4
""")
NOT_NUMBERS = (
    *words(
        "+1 --1 - 1_000 1,5 1.2.3 0x1F 1f 1d 1L 1BD 00 01 -01 007 NaN nan Infinity -Infinity inf null None"
    ),
    *words("""[1] {} "1" '1' 1;drop \u0663 \uff11\uff12 \u00bd 1e\uff11"""),
    *("", " ", " 12 ", "12 ", "\t12", "12\n", "\u00a012", "1\u0000"),
)
BOOLEANS = (*words("true false True TRUE yes no y t f on 1 0 tru wahr"), " true", "true ")
DATES = (
    *words(
        "2024-02-29 2023-02-29 1900-02-29 2000-02-29 2024-01-31 2024-04-31 2024-13-01 2024-00-10 2024-01-00"
    ),
    *words("0001-01-01 0000-01-01 9999-12-31 10000-01-01 1582-10-10 1500-02-29 1969-12-31 2024 2024-02"),
    *words("2024-2-9 24-02-09 20240229 2024/02/29 29.02.2024 2024-02-29T +2024-02-29 -2024-02-29 2024-060"),
    *words("2024-W09-4 \u0662\u0660\u0662\u0664-\u0660\u0662-\u0662\u0669 today now epoch 2024-02-29Z"),
    *("2024-02-29 ", " 2024-02-29"),
)
MIDNIGHT = "2026-01-01T00:00:00"
INSTANTS = (
    *(
        MIDNIGHT + end
        for end in words("Z z UTC [UTC] .1Z .123456Z .1234567Z .Z ,5Z +00:00 -00:00 +05:30 -18:00")
    ),
    *(MIDNIGHT + end for end in words("+18:00 +18:01 +19:00 +5:30 +0530 +05 .000001+00:01")),
    *(MIDNIGHT + end for end in ("", " +05:30", "Z ", " Europe/Berlin")),
    *words("2026-01-01t00:00:00Z 2026-01-01T00:00Z 2026-01-01T23:59:59.999999Z 2026-01-01T24:00:00Z"),
    *words("2026-01-01T23:60:00Z 2026-01-01T23:59:60Z 2026-02-29T00:00:00Z 2026-03-29T02:30:00+01:00"),
    *words(
        "0001-01-01T00:00:00Z 0001-01-01T00:00:00+18:00 9999-12-31T23:59:59.999999-18:00 1582-10-10T12:00:00Z"
    ),
    *words("1883-11-18T12:00:00Z 1969-12-31T23:59:59.999999Z 12:30 12:30:00 T12:30:00Z 2026-01-01"),
    *words("1767225600 1767225600000 1767225600123456 176722560 0000000000 9999999999 9999999999999"),
    *words("0000000000000 -1767225600 1767225600.0 1.7672256e9 \uff11767225600"),
    *("2026-01-01 00:00:00Z", "2025-12-31 23:59:59.5-18:00"),
)
TEXTS = tuple(
    dict.fromkeys(
        (*INTEGERS, *FRACTIONS, *EXPONENTS, *NOT_NUMBERS, *BOOLEANS, *DATES, *INSTANTS, "Zürich", "😀")
    )
)
TYPES = (
    ("string", "iso8601"),
    ("int", "iso8601"),
    ("bigint", "iso8601"),
    ("double", "iso8601"),
    ("boolean", "iso8601"),
    ("date", "iso8601"),
    ("timestamp", "iso8601"),
    ("timestamp", "epoch_seconds"),
    ("timestamp", "epoch_millis"),
    ("decimal(10,2)", "iso8601"),
    ("decimal(38,0)", "iso8601"),
    ("decimal(38,38)", "iso8601"),
    ("decimal(38,10)", "iso8601"),
    ("decimal(1,0)", "iso8601"),
)


def expected(text: str, type_name: str, form: str) -> Value:
    """The value, as it can be compared; None for no value."""
    try:
        value = cast(text, type_name, form)
    except NotOfTypeError:
        return None
    return _comparable(value)


def _comparable(value: Value) -> Value:
    # -0.0 == 0.0, but they are two values.
    return repr(value) if isinstance(value, float) else value


def test_there_are_many_rows_of_either_kind() -> None:
    values = [expected(text, *kind) for text, kind in product(TEXTS, TYPES)]
    assert len(values) > 2500
    assert all(
        sum(expected(text, *kind) is not None for text in TEXTS) >= 2
        and (kind[0] == "string" or sum(expected(text, *kind) is None for text in TEXTS) >= 100)
        for kind in TYPES
    )


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_text_under_every_type(kind: tuple[str, str]) -> None:
    type_name, form = kind
    values = casting.exactly(pa.array([*TEXTS, None], casting.TEXT), column_types.parse(type_name), form)
    shown = values.cast(pa.int64()) if type_name == "timestamp" else values
    *found, absent = shown.to_pylist()
    wrong = [
        f"{text!r}: {value!r}, not {right!r}"
        for text, value in zip(TEXTS, found, strict=True)
        for right in [expected(text, *kind)]
        if _comparable(value) != right
    ]
    assert wrong == []
    assert absent is None


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_the_contracts_rule_and_the_oracle_agree(kind: tuple[str, str]) -> None:
    """So that a default, which the contract's rule lets pass, is a value too."""
    type_name, form = kind
    wrong = [
        text
        for text in TEXTS
        if is_exact(text, column_types.parse(type_name), form) != (expected(text, *kind) is not None)
    ]
    assert wrong == []


def micros(*parts: int) -> int:
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // MICROSECOND


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.239", ("decimal(10,2)", "iso8601"), None),
        ("1.230", ("decimal(10,2)", "iso8601"), Decimal("1.23")),
        ("1E2", ("decimal(10,2)", "iso8601"), Decimal(100)),
        ("1e-3", ("decimal(10,2)", "iso8601"), None),
        ("100000000.00", ("decimal(10,2)", "iso8601"), None),
        ("12:30", ("timestamp", "iso8601"), None),
        (" 12 ", ("int", "iso8601"), None),
        ("NaN", ("double", "iso8601"), None),
        ("2024", ("date", "iso8601"), None),
        ("yes", ("boolean", "iso8601"), None),
        ("2147483648", ("int", "iso8601"), None),
        ("2147483648", ("bigint", "iso8601"), 2147483648),
        ("1767225600", ("timestamp", "iso8601"), None),
        ("1767225600", ("timestamp", "epoch_seconds"), micros(2026, 1, 1)),
        ("1767225600000", ("timestamp", "epoch_seconds"), None),
        ("1767225600000", ("timestamp", "epoch_millis"), micros(2026, 1, 1)),
        ("2026-01-01T00:00:00+05:30", ("timestamp", "iso8601"), micros(2025, 12, 31, 18, 30)),
        ("2024-02-29", ("date", "iso8601"), date(2024, 2, 29)),
        ("1e400", ("double", "iso8601"), None),
        ("-0", ("double", "iso8601"), "-0.0"),
    ],
)
def test_the_oracle_itself_by_hand(text: str, kind: tuple[str, str], value: Value) -> None:
    assert text in TEXTS
    assert expected(text, *kind) == value


CODES = (
    ("a", {"cde": True}, None, "CDE_MISSING"),
    ("b", {"cde": True}, "", "CDE_MISSING"),
    ("c", {"cde": True}, " \t\n", "CDE_MISSING"),
    ("d", {"cde": True, "type": "int"}, "", "CDE_MISSING"),
    ("e", {"cde": True, "type": "int"}, "x", "WRONG_TYPE"),
    ("f", {"nullable": False}, None, "NOT_NULL"),
    ("g", {"nullable": False}, "", None),
    ("h", {"nullable": False, "type": "int"}, "", "WRONG_TYPE"),
    ("i", {"nullable": False, "default": "7", "type": "int"}, None, None),
    ("j", {"type": "int"}, None, None),
    ("k", {"type": "int"}, "[1]", "WRONG_TYPE"),
    ("l", {}, "[1, 2.50 ]", None),
    ("m", {"pii": True, "cde": True}, " ", "CDE_MISSING"),
    ("n", {"pii": True}, "secret", None),
    ("o", {"type": "date"}, "9" * 5000, "WRONG_TYPE"),
)


def test_all_violations_of_a_record_are_in_one_place_in_the_order_of_the_contract() -> None:
    columns = [{"name": name, "type": "string", **fields} for name, fields, _, _ in CODES]
    envelope = ["idempotency_key", "message_id", "publish_time", "period_reference"]
    contract = ContractSpec.model_validate(
        {"table_name": "t", "version": "1.0", "envelope_columns": envelope, "payload_columns": columns}
    )
    row = {
        "message_id": "m", "topic_name": "t", "publish_time": datetime(2026, 1, 1, tzinfo=UTC), "ingestion_ts": 0,
        "idempotency_key": None, "period_reference": "2026-01", **{name: text for name, _, text, _ in CODES},
    }  # fmt: skip
    types = {"publish_time": casting.INSTANT, "ingestion_ts": pa.int64()}
    rows = pa.table({name: pa.array([value], types.get(name, casting.TEXT)) for name, value in row.items()})
    found = validated(rows, contract, Places({name: name for name, *_ in CODES}, overflow=False))
    (told,) = found.violations.to_pylist()
    violations = json.loads(told)
    assert [(each["code"], each["column"]) for each in violations] == [
        ("MISSING_KEY", "idempotency_key"),
        *((code, name) for name, _, _, code in CODES if code),
    ]
    values = {each["column"]: each.get("value") for each in violations}
    assert (values["e"], values["m"]) == ("x", "***")
    assert all(len(value or "") <= 200 for value in values.values())
    assert all(each["rule"] for each in violations)
