"""Two contracts compared: every difference once, in its class, and only a fitting version admits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.config.topics import KeysSpec
from lean_ops.contracts.compatibility import Comparison, Impact, compare
from lean_ops.contracts.spec import REQUIRED_ENVELOPE, ColumnSpec, ContractSpec

SAFE, WARNING, BREAKING = Impact.SAFE, Impact.WARNING, Impact.BREAKING
Expected = tuple[str, str, Impact]

OPTIONAL: dict[str, Any] = {"cde": False, "nullable": None}
REQUIRED: dict[str, Any] = {"cde": False, "nullable": False}
CRITICAL: dict[str, Any] = {"cde": True, "nullable": None}


def column(name: str, **fields: Any) -> ColumnSpec:
    return ColumnSpec.model_validate({"name": name, "path": f"payload.{name}", "type": "string", **fields})


def contract(*columns: ColumnSpec, **fields: Any) -> ContractSpec:
    return ContractSpec.model_validate(
        {
            "table_name": "orders",
            "version": "1.0",
            "envelope_columns": REQUIRED_ENVELOPE,
            "payload_columns": columns,
            **fields,
        }
    )


def found(comparison: Comparison) -> list[Expected]:
    return [
        (difference.change, difference.column, difference.impact) for difference in comparison.differences
    ]


# ---------------------------------------------------------------- every single change, in its class

# The old fields of a column, the new ones, and what that change is.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str, Impact]] = {
    "int to bigint": ({"type": "int"}, {"type": "bigint"}, "type_widened", SAFE),
    "more precision": ({"type": "decimal(10,2)"}, {"type": "decimal(18,2)"}, "type_widened", SAFE),
    "less precision": ({"type": "decimal(18,2)"}, {"type": "decimal(10,2)"}, "type_changed", BREAKING),
    "more scale": ({"type": "decimal(18,2)"}, {"type": "decimal(20,4)"}, "type_changed", BREAKING),
    "bigint to int": ({"type": "bigint"}, {"type": "int"}, "type_changed", BREAKING),
    "int to string": ({"type": "int"}, {"type": "string"}, "type_changed", BREAKING),
    "int to double": ({"type": "int"}, {"type": "double"}, "type_changed", BREAKING),
    "date to timestamp": ({"type": "date"}, {"type": "timestamp"}, "type_changed", BREAKING),
    "another time format": (
        {"type": "timestamp"}, {"type": "timestamp", "format": "epoch_millis"}, "format_changed", BREAKING,
    ),
    "another path": ({"path": "a.b"}, {"path": "a.c"}, "source_changed", BREAKING),
    "required to optional": (REQUIRED, OPTIONAL, "requirement_relaxed", WARNING),
    "critical to optional": (CRITICAL, OPTIONAL, "requirement_relaxed", WARNING),
    "optional to required": (OPTIONAL, REQUIRED, "requirement_added", BREAKING),
    "optional to critical": (OPTIONAL, CRITICAL, "requirement_added", BREAKING),
    "required to critical": (REQUIRED, CRITICAL, "cde_changed", WARNING),
    "critical to required": (CRITICAL, REQUIRED, "cde_changed", WARNING),
    "personal data hidden": ({"pii": False}, {"pii": True}, "pii_on", WARNING),
    "personal data shown": ({"pii": True}, {"pii": False}, "pii_off", BREAKING),
    "default given": ({}, {"default": "x"}, "default_changed", WARNING),
    "default taken away": ({"default": "x"}, {}, "default_changed", WARNING),
    "another default": ({"default": "x"}, {"default": "y"}, "default_changed", WARNING),
    "described": ({}, {"description": "What it is."}, "documented", SAFE),
}  # fmt: skip

# Different words for the same thing.
NO_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nullable said aloud": (OPTIONAL, {"cde": False, "nullable": True}),
    "a critical column said not to be nullable": (CRITICAL, {"cde": True, "nullable": False}),
    "the usual time format said aloud": ({"type": "timestamp"}, {"type": "timestamp", "format": "iso8601"}),
    "blanks in a type": ({"type": "decimal(18,2)"}, {"type": "decimal( 18 , 2 )"}),
    "the path that the name implies": ({"path": None}, {"path": "a"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_column_is_reported_once_in_its_class(name: str) -> None:
    before, after, change, impact = CHANGES[name]
    comparison = compare(contract(column("a", **before)), contract(column("a", **after)))
    assert found(comparison) == [(change, "a", impact)]


@pytest.mark.parametrize("name", NO_CHANGES)
def test_other_words_for_the_same_are_no_change(name: str) -> None:
    before, after = NO_CHANGES[name]
    assert found(compare(contract(column("a", **before)), contract(column("a", **after)))) == []


@pytest.mark.parametrize(
    ("requirement", "change", "impact"),
    [
        (OPTIONAL, "column_added", SAFE),
        (OPTIONAL | {"default": "x"}, "column_added", SAFE),
        (REQUIRED, "required_added", BREAKING),
        (CRITICAL, "required_added", BREAKING),
        (REQUIRED | {"default": "x"}, "required_added", BREAKING),  # rows already stored still have no value
    ],
)
def test_adding_a_column_is_safe_unless_every_row_must_have_it(
    requirement: dict[str, Any], change: str, impact: Impact
) -> None:
    comparison = compare(contract(column("a")), contract(column("a"), column("b", **requirement)))
    assert found(comparison) == [(change, "b", impact)]


def test_dropping_a_column_is_breaking() -> None:
    comparison = compare(contract(column("a"), column("b")), contract(column("b")))
    assert found(comparison) == [("column_dropped", "a", BREAKING)]


def test_a_column_of_another_name_and_the_same_path_is_a_rename_and_not_a_drop() -> None:
    comparison = compare(contract(column("a", path="x")), contract(column("b", path="x")))
    assert found(comparison) == [("column_renamed", "b", BREAKING)]
    assert comparison.differences[0].detail == "a → b"


def test_what_else_changed_with_a_rename_is_reported_too() -> None:
    old, new = column("a", path="x", type="int"), column("b", path="x", type="string", description="d")
    assert found(compare(contract(old), contract(new))) == [
        ("column_renamed", "b", BREAKING),
        ("type_changed", "b", BREAKING),
        ("documented", "b", SAFE),
    ]


def test_two_columns_that_trade_their_paths_both_changed_their_source() -> None:
    old = contract(column("a", path="x"), column("b", path="y"))
    new = contract(column("a", path="y"), column("b", path="x"))
    assert found(compare(old, new)) == [("source_changed", "a", BREAKING), ("source_changed", "b", BREAKING)]


def test_a_name_taken_over_by_another_path_is_one_rename_and_one_new_source() -> None:
    old = contract(column("a", path="x"), column("b", path="y"))
    new = contract(column("b", path="x"))
    assert found(compare(old, new)) == [("source_changed", "b", BREAKING), ("column_dropped", "a", BREAKING)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"table_name": "order"}, ("table_renamed", "", BREAKING)),
        ({"description": "Orders."}, ("documented", "", SAFE)),
        ({"envelope_columns": (*REQUIRED_ENVELOPE, "topic_name")}, ("column_added", "topic_name", SAFE)),
        ({"envelope_columns": REQUIRED_ENVELOPE[1:]}, ("column_dropped", "idempotency_key", BREAKING)),
    ],
)
def test_a_change_outside_the_columns_is_reported_once_in_its_class(
    fields: dict[str, Any], expected: Expected
) -> None:
    assert found(compare(contract(column("a")), contract(column("a"), **fields))) == [expected]


@pytest.mark.parametrize(
    ("old", "new", "detail"),
    [
        (KeysSpec(idempotency_key="a"), KeysSpec(idempotency_key="b"), "a → b"),
        (KeysSpec(), KeysSpec(idempotency_key="b"), "envelope → b"),
        (KeysSpec(idempotency_key="a"), KeysSpec(), "a → envelope"),
    ],
)
def test_another_key_is_breaking(old: KeysSpec, new: KeysSpec, detail: str) -> None:
    comparison = compare(contract(), contract(), keys=(old, new))
    assert found(comparison) == [("key_changed", "idempotency_key", BREAKING)]
    assert comparison.differences[0].detail == detail
    assert "rebuild Standardized and Curated from RAW" in comparison.differences[0].rebuild
    assert found(compare(contract(), contract(), keys=(old, old))) == []


# ---------------------------------------------------------------- any contracts

DECIMALS = st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda ps: f"decimal({max(ps)},{min(ps)})")
TYPES = st.sampled_from(["string", "int", "bigint", "double", "boolean", "date", "timestamp"]) | DECIMALS


@st.composite
def columns(draw: st.DrawFn) -> list[ColumnSpec]:
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4))
    paths = draw(st.lists(st.sampled_from("pqrstu"), unique=True, min_size=len(names), max_size=len(names)))
    return [
        column(
            name,
            path=path,
            type=draw(TYPES),
            pii=draw(st.booleans()),
            default=draw(st.sampled_from([None, "1", "2"])),
            description=draw(st.sampled_from(["", "d"])),
            **draw(st.sampled_from([OPTIONAL, REQUIRED, CRITICAL])),
        )
        for name, path in zip(names, paths, strict=True)
    ]


VERSIONS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(columns(), st.randoms())
def test_a_contract_does_not_differ_from_itself_in_whatever_order_it_is_written(
    some: list[ColumnSpec], random: Any
) -> None:
    shuffled = random.sample(some, len(some))
    envelope = random.sample(REQUIRED_ENVELOPE, len(REQUIRED_ENVELOPE))
    comparison = compare(contract(*some), contract(*shuffled, envelope_columns=envelope))
    assert comparison.differences == ()
    assert comparison.impact is SAFE
    assert comparison.allowed


@given(columns(), columns())
def test_contracts_without_differences_say_the_same(old: list[ColumnSpec], new: list[ColumnSpec]) -> None:
    def meaning(some: Sequence[ColumnSpec]) -> set[tuple[object, ...]]:
        return {
            (c.name, c.payload_path, c.type, c.cde, c.required, c.default, c.pii, c.description) for c in some
        }

    differs = bool(compare(contract(*old), contract(*new)).differences)
    assert differs == (meaning(old) != meaning(new))


@given(columns(), columns(), VERSIONS, VERSIONS)
def test_only_a_new_major_version_admits_a_breaking_change_and_only_a_higher_one_any(
    old: list[ColumnSpec], new: list[ColumnSpec], before: tuple[int, int], after: tuple[int, int]
) -> None:
    comparison = compare(
        contract(*old, version=f"{before[0]}.{before[1]}"), contract(*new, version=f"{after[0]}.{after[1]}")
    )
    impacts = {difference.impact for difference in comparison.differences}
    assert comparison.impact is (BREAKING if BREAKING in impacts else WARNING if WARNING in impacts else SAFE)
    if BREAKING in impacts:
        assert comparison.allowed == (after[0] > before[0])
    elif impacts:
        assert comparison.allowed == (after > before)
    else:
        assert comparison.allowed == (after >= before)
    assert bool(comparison.version_fault) != comparison.allowed


@given(columns(), columns())
def test_every_breaking_change_says_what_it_asks_of_the_rows_already_stored(
    old: list[ColumnSpec], new: list[ColumnSpec]
) -> None:
    for difference in compare(contract(*old), contract(*new)).differences:
        assert difference.rebuild or difference.impact is not BREAKING
        assert difference.detail


MUTATIONS = sorted(CHANGES)


@given(columns(), st.data())
def test_changes_in_different_columns_are_reported_independently(
    some: list[ColumnSpec], data: st.DataObject
) -> None:
    chosen = {c.name: CHANGES[data.draw(st.sampled_from(MUTATIONS))] for c in some}
    plain = [column(name, **before) for name, (before, _, _, _) in chosen.items()]
    changed = [
        column(name, **after) if data.draw(st.booleans()) else plain[index]
        for index, (name, (_, after, _, _)) in enumerate(chosen.items())
    ]
    # "another path" gives every column the same one, which no sound contract has.
    old, new = _with_own_paths(plain), _with_own_paths(changed)
    expected = [
        (change, name, impact)
        for index, (name, (_, _, change, impact)) in enumerate(chosen.items())
        if changed[index] is not plain[index]
    ]
    assert found(compare(contract(*old), contract(*new))) == expected


def _with_own_paths(some: list[ColumnSpec]) -> list[ColumnSpec]:
    return [c.model_copy(update={"path": f"{c.name}.{c.path}"}) for c in some]


def test_the_refusal_names_the_version_that_would_do() -> None:
    old, new = contract(column("a"), version="2.7"), contract(version="2.8")
    assert (
        compare(old, new).version_fault == "breaking changes need a new major version: at least 3.0, not 2.8"
    )
    documented = contract(column("a"), version="2.7", description="d")
    assert (
        compare(old, documented).version_fault
        == "a changed contract needs a higher version than 2.7, not 2.7"
    )
    assert compare(old, contract(column("a"), version="2.6")).version_fault == "version 2.6 is older than 2.7"


def test_versions_are_numbers_and_not_text() -> None:
    assert compare(contract(version="1.9"), contract(version="1.10", description="d")).allowed
    assert compare(contract(column("a"), version="9.0"), contract(version="10.0")).allowed


def test_a_difference_is_data() -> None:
    (difference,) = compare(contract(column("a")), contract()).differences
    assert difference.as_dict() == {
        "change": "column_dropped",
        "column": "a",
        "impact": "breaking",
        "detail": "string from payload.a",
        "rebuild": "rebuild Curated without the column",
    }
