"""A guess holds for every record of its sample, is a sound contract, and says that it is a guess."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lean_ops.contracts import contract_file
from lean_ops.contracts.column_types import is_exact
from lean_ops.contracts.inference import Guess, guess
from lean_ops.payload.flatten import leaves

ORDERS = [
    {
        "orderId": f"o-{number}",
        "amount": number / 4,
        "count": number,
        "paid": True,
        "day": "2026-11-18",
        "at": "2026-11-18T10:00:00Z",
        "period": "2026-11",
        "tags": [1],
        "customer": {"eMail": "a@b.example"},
        "mixed": number if number % 2 else "x",
    }
    for number in range(10)
]


def guessed(*records: Any) -> Guess:
    return guess("orders", [json.dumps(record) for record in records])


def types(result: Guess) -> dict[str, str]:
    return {column["name"]: column["type"] for column in result.contract["payload_columns"]}


def test_types_keys_and_personal_data_are_guessed_from_what_was_seen() -> None:
    result = guessed(*ORDERS)
    assert types(result) == {
        "order_id": "string",
        "amount": "decimal(38,2)",
        "count": "bigint",
        "paid": "boolean",
        "day": "date",
        "at": "timestamp",
        "period": "string",
        "tags": "string",
        "customer_e_mail": "string",
        "mixed": "string",
    }
    assert (result.idempotency_key, result.period_reference, result.records) == ("orderId", "period", 10)
    (personal,) = [column for column in result.contract["payload_columns"] if column.get("pii")]
    assert personal["path"] == "customer.eMail"


def test_every_guess_says_that_it_is_one_and_no_guess_is_a_release() -> None:
    contract = guessed(*ORDERS, {"orderId": "o"}).contract
    assert contract["version"] == "0.1"
    assert contract["description"].startswith("A guess from 11 records")
    assert all(column["description"].startswith("A guess: in ") for column in contract["payload_columns"])
    amounts = [each for each in contract["payload_columns"] if each["name"] == "amount"]
    assert amounts[0]["description"] == "A guess: in 10 of 11 records."


def test_what_is_no_json_object_says_nothing() -> None:
    result = guess("orders", ["", "[1]", '{"a": ', b"\xff"])
    assert (result.records, result.contract["payload_columns"], result.idempotency_key) == (0, [], None)


def test_names_that_clash_or_are_taken_stay_apart() -> None:
    result = guessed({"a": {"b": 1}, "a_b": 2, "message_id": 3, "日本": 4})
    assert sorted(types(result)) == ["a_b", "a_b_2", "message_id_2"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=5), max_size=5))
def test_whatever_the_sample_the_guess_is_sound_and_holds_for_all_of_it(
    records: list[dict[str, Any]],
) -> None:
    texts = [json.dumps(record) for record in records]
    contract = contract_file.read("", json.dumps(guess("orders", texts).contract).encode()).checked()
    for text in texts:
        found = leaves(text)
        assert isinstance(found, dict)
        for column in contract.payload_columns:
            leaf = found.get(column.payload_path)
            assert leaf is None or is_exact(leaf.text, column.column_type)
