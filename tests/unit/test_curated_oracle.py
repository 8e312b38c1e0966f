"""The oracle of Curated against cases worked by hand: an oracle that is wrong proves nothing."""

from __future__ import annotations

import hashlib
import hmac
import random
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.contracts import column_types
from lean_ops.contracts.spec import ContractSpec
from tests.spark.casting_oracle import EPOCH, MICROSECOND, NotOfTypeError, Value, cast
from tests.spark.curated_oracle import CuratedOracle, CuratedRow, OpenError, Violation
from tests.spark.curated_streams import PII_KEY, contract, corrections, standardized
from tests.spark.oracle import Identity, Row


def simple(version: str = "1.0", **amount: object) -> ContractSpec:
    columns = [
        {"name": "amount", "type": "decimal(10,2)", **amount},
        {"name": "email", "type": "string", "pii": True},
        {"name": "unit", "type": "string", "nullable": False, "default": "kg"},
    ]
    envelope = ["idempotency_key", "message_id", "publish_time", "period_reference"]
    return ContractSpec.model_validate(
        {"table_name": "t", "version": version, "envelope_columns": envelope, "payload_columns": columns}
    )


STRICT, LAX = simple(cde=True), simple("1.1")


def record(
    message_id: str, time: int, period: str = "2026-01", key: str | None = "k", **leaves: str
) -> tuple[Identity, Row]:
    return (message_id, time), Row(0, key, period, leaves)


def shown(*steps: tuple[ContractSpec, list[tuple[Identity, Row]]]) -> CuratedOracle:
    oracle = CuratedOracle("t", PII_KEY)
    for rules, records in steps:
        oracle.take(dict(records), rules)
    return oracle


def row(
    last: tuple[str, int, str], first: tuple[str, int, str], version: str = "1.0", **values: Value
) -> CuratedRow:
    (message_id, time, period), (first_id, first_time, first_period) = last, first
    known = {"unit": "kg"} | values
    return CuratedRow(message_id, time, period, first_id, first_period, first_time, time, version, known)


A, B, C = ("a", 10, "2026-01"), ("b", 20, "2026-03"), ("c", 20, "2025-12")


def test_payload_and_period_follow_the_greatest_version_and_first_the_least() -> None:
    oracle = shown((STRICT, [record(*B, amount="2"), record(*A, amount="1"), record(*C, amount="3.10")]))
    assert oracle.rows == {"k": row(C, A, amount=Decimal("3.10"))}, "of equal times the greater id wins"
    assert oracle.superseded == 2


def test_an_invalid_correction_hides_no_valid_version_wherever_it_stands() -> None:
    invalid = [record("x", 5, amount="1.239"), record("y", 15, amount=" "), record("z", 99)]
    oracle = shown((STRICT, [invalid[0], record(*A, amount="1"), *invalid[1:], record(*B, amount="2")]))
    assert oracle.rows == {"k": row(B, A, amount=Decimal("2.00"))}
    assert {identity: error.violations for identity, error in oracle.errors.items()} == {
        ("x", 5): (Violation("WRONG_TYPE", "amount", "1.239"),),
        ("y", 15): (Violation("CDE_MISSING", "amount", " "),),
        ("z", 99): (Violation("CDE_MISSING", "amount"),),
    }


def test_all_violations_of_a_record_are_told_and_a_key_that_only_fails_has_no_row() -> None:
    oracle = shown(
        (STRICT, [record("x", 1, key=None), record("y", 2, key="", amount="1"), record("z", 3, key="q")])
    )
    assert oracle.rows == {}
    assert [error.violations for error in oracle.errors.values()].count(
        (Violation("MISSING_KEY", "idempotency_key"),)
    ) == 1
    assert oracle.errors["x", 1] == OpenError(
        1, "1.0", "2026-01", (Violation("MISSING_KEY", "idempotency_key"), Violation("CDE_MISSING", "amount"))
    )


def test_personal_data_is_a_keyed_hash() -> None:
    oracle = shown((LAX, [record(*A, email="Zoë")]))
    digest = hmac.new(PII_KEY, b"Zo\xc3\xab", hashlib.sha256).hexdigest()
    assert oracle.rows == {"k": row(A, A, "1.1", email=digest)}


def test_a_row_has_the_contract_of_its_winning_version_and_a_replay_heals_by_the_same_rules() -> None:
    oracle = shown((STRICT, [record(*A), record(*B, amount="2")]))
    oracle.replay(STRICT)
    assert oracle.errors["a", 10].attempt == 2
    oracle.replay(LAX, code="WRONG_TYPE")
    assert oracle.errors["a", 10].attempt == 2
    oracle.replay(LAX)
    assert (oracle.errors, oracle.resolved) == ({}, {("a", 10): 3})
    assert oracle.rows == {"k": row(B, A, amount=Decimal("2.00"))}
    oracle.take(dict([record("d", 30)]), LAX)
    assert oracle.rows == {"k": row(("d", 30, "2026-01"), A, "1.1")}


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_cut_matters_to_it(seed: int) -> None:
    rows = list(standardized(corrections(seed, 150)).items())
    whole = shown((contract("t"), rows))
    random.Random(seed).shuffle(rows)  # noqa: S311
    parts = shown(*((contract("t"), rows[start::4]) for start in range(4)))
    assert (parts.rows, parts.errors) == (whole.rows, whole.errors)


def test_the_streams_hold_every_situation_worth_testing() -> None:
    rows = standardized(corrections(1, 300))
    oracle = shown((contract("t"), list(rows.items())))
    days = [(each.last_updated_ts - each.first_seen_ts) // 86_400_000_000 for each in oracle.rows.values()]
    assert max(days) > 880
    assert any(each.period_reference != each.first_period_reference for each in oracle.rows.values())
    codes = {violation.code for error in oracle.errors.values() for violation in error.violations}
    assert codes == {"CDE_MISSING", "NOT_NULL", "WRONG_TYPE", "MISSING_KEY"}
    failing = {rows[identity].idempotency_key for identity in oracle.errors} - oracle.rows.keys()
    assert any(key and key.startswith("hopeless") for key in failing)
    assert any(len(error.violations) > 2 for error in oracle.errors.values())
    newest = {key: max(i[::-1] for i in rows if rows[i].idempotency_key == key) for key in oracle.rows}
    hidden = [key for key, each in oracle.rows.items() if newest[key] > (each.publish_time, each.message_id)]
    assert hidden, "an invalid correction after the last valid version"
    times = [time for _, time in rows]
    assert len(set(times)) < len(times), "equal times"
    before = len(oracle.errors)
    oracle.replay(contract("t", "1.2"))
    assert 0 < len(oracle.errors) < before


def micros(text: str) -> int:
    moment = EPOCH.fromisoformat(text)
    return (moment - EPOCH) // MICROSECOND


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        ("1E2", "decimal(10,2)", Decimal("100.00")),
        ("0.10", "decimal(3,1)", Decimal("0.1")),
        ("-0", "int", 0),
        ("2024-02-29", "date", date(2024, 2, 29)),
        ("2026-01-01T00:00:00.5+05:30", "timestamp", micros("2025-12-31T18:30:00.500000+00:00")),
        ("0001-01-01 00:00:00+18:00", "timestamp", micros("0001-01-01T00:00:00+00:00") - 18 * 3_600_000_000),
        ("1.239", "decimal(10,2)", None),
        ("12:30", "timestamp", None),
        (" 12 ", "int", None),
        ("NaN", "double", None),
        ("2024", "date", None),
        ("yes", "boolean", None),
        ("2147483648", "int", None),
        ("2026-01-01T00:00:00+18:01", "timestamp", None),
    ],
)  # fmt: skip
def test_casting(text: str, type_name: str, value: Value) -> None:
    if value is None:
        with pytest.raises(NotOfTypeError):
            cast(text, type_name)
    else:
        assert cast(text, type_name) == value


PARTS = (
    "0",
    "-0",
    "1",
    "12",
    "9" * 11,
    "2147483648",
    "9223372036854775808",
    ".5",
    ".50",
    "E2",
    "e-1",
    "E400",
    "e" + "0" * 30,
)
CLOCKS = (
    "2024-02-29",
    "2023-02-29",
    "T",
    " ",
    "00:00:00",
    "23:59:60",
    ".123456",
    ".1234567",
    "Z",
    "+05:30",
    "-18:01",
)
TEXTS = st.lists(
    st.sampled_from((*PARTS, *CLOCKS, "-", "+", "٣", "true", "1767225600", "123")), max_size=5
).map("".join)
TYPES = (
    "int",
    "bigint",
    "double",
    "boolean",
    "date",
    "timestamp",
    "decimal(10,2)",
    "decimal(38,0)",
    "decimal(3,3)",
)


@given(TEXTS, st.sampled_from(TYPES), st.sampled_from(["iso8601", "epoch_seconds", "epoch_millis"]))
def test_it_agrees_with_the_contracts_own_rule_on_what_is_a_value(
    text: str, type_name: str, form: str
) -> None:
    try:
        cast(text, type_name, form)
    except NotOfTypeError:
        sound = False
    else:
        sound = True
    assert column_types.is_exact(text, column_types.parse(type_name), form) == sound
