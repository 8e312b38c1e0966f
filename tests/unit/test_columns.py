"""Columns of the Standardized table: names that are always legal, always unique, and never move."""

from __future__ import annotations

import hashlib
import re
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.naming import is_identifier
from lean_ops.payload import payload_path
from lean_ops.payload.columns import (
    ENVELOPE,
    OVERFLOW,
    RESERVED,
    Registry,
    column_name,
    extend,
    may_be_column,
    registry,
    room,
)

KEYS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            "",
            ".",
            "\\",
            "a",
            "A",
            "a_b",
            "é",
            "9",
            "_overflow",
            "message_id",
            "MESSAGE_ID",
            "select",
            "x" * 300,
        ]
    ),
)
PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple).map(payload_path.join)


def suffix(path: str, length: int = 8) -> str:
    return "_" + hashlib.sha256(path.encode()).hexdigest()[:length]


def with_columns(table: Registry, added: tuple[tuple[str, str], ...]) -> Registry:
    return registry([*((name, path) for path, name in table.columns.items()), *added])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("event.userId", "event_userid"),
        ("userName", "username"),
        ("USER-NAME", "user_name"),
        ("a\\.b", "a_b"),
        ("a\\\\b", "a_b"),
        ("\\e", "_"),
        ("a.\\e", "a_"),
        ("\\e.a", "_a"),
        ("1st", "_1st"),
        ("1.2", "_1_2"),
        ("größe", "gr__e"),
        ("\u212a", "_"),  # the Kelvin sign, whose lower case is an ASCII k
        ("😀", "_"),
        ("名前", "__"),
        ('"; drop table users; --', "___drop_table_users____"),
        ("`a`", "_a_"),
        ("a b\tc", "a_b_c"),
        ("select", "select"),
        ("x" * 300, "x" * 255),
        ("9" * 300, "_" + "9" * 254),
    ],
)
def test_a_path_becomes_a_plain_name(path: str, name: str) -> None:
    assert column_name(path) == name


@pytest.mark.parametrize("path", sorted(RESERVED))
def test_a_key_cannot_take_a_name_of_ours_or_of_iceberg(path: str) -> None:
    assert extend(registry([]), [path], 10, "add").added == ((path + suffix(path), path),)


def test_the_envelope_and_icebergs_own_columns_are_reserved() -> None:
    assert {*ENVELOPE, OVERFLOW, "_file", "_pos", "_partition", "_spec_id", "_deleted"} <= RESERVED


def test_the_first_owner_keeps_the_name_and_later_ones_get_a_suffix() -> None:
    table = registry([("event_userid", "event.userId")])
    plan = extend(table, ["event_userid", "Event.UserID", "event\\.userid"], 10, "add")
    assert plan.added == tuple(
        (f"event_userid{suffix(path)}", path) for path in ("Event.UserID", "event\\.userid", "event_userid")
    )


def test_new_paths_are_taken_in_sorted_order_whatever_order_they_come_in() -> None:
    plans = {extend(registry([]), paths, 2, "add") for paths in permutations(["a.B", "a.b", "a_b", "A.b"])}
    (plan,) = plans
    assert plan.added == (("a_b", "A.b"), (f"a_b{suffix('a.B')}", "a.B"))
    assert plan.overflow == ("a.b", "a_b")


def test_a_name_that_differs_in_case_only_is_taken() -> None:
    assert extend(registry([("UserId", None)]), ["userid"], 10, "add").added == (
        (f"userid{suffix('userid')}", "userid"),
    )


def test_a_key_that_guesses_the_suffix_only_makes_it_longer() -> None:
    guessed = f"a{suffix('A')}"
    table = registry([("a", "a"), (guessed, guessed)])
    assert extend(table, ["A"], 10, "add").added == ((f"a{suffix('A', 16)}", "A"),)


def test_when_every_suffix_is_taken_the_path_goes_to_overflow() -> None:
    table = registry([("a", "a"), *((f"a{suffix('A', length)}", None) for length in range(8, 65, 8))])
    plan = extend(table, ["A", "b"], 3, "add")
    assert (plan.added, plan.overflow) == ((("b", "b"),), ("A",))


def test_long_names_keep_their_suffix() -> None:
    first, second = "x" * 254 + "y", "x" * 254 + "Y"
    plan = extend(registry([("x" * 254 + "y", first)]), [second], 10, "add")
    assert plan.added == (("x" * 246 + suffix(second), second),)


@pytest.mark.parametrize("path", ["k" * 256, "é" * 128, "a\nb", "a\x00b", "a\x7fb\x1f", "\uffff"])
def test_a_path_that_glue_would_refuse_as_a_comment_gets_no_column(path: str) -> None:
    assert not may_be_column(path)
    assert extend(registry([]), [path], 10, "add").overflow == (path,)


@pytest.mark.parametrize("path", ["k" * 255, "é" * 127, "a\tb", " ", "\x7f", "😀", "\\e"])
def test_any_other_path_may_have_one(path: str) -> None:
    assert len(extend(registry([]), [path], 10, "add").added) == 1


def test_a_table_is_its_own_registry() -> None:
    fields = [
        *((name, "what it means") for name in ENVELOPE),
        ("a_b", "a.b"),
        ("own", None),
        ("empty", ""),
        (OVERFLOW, "the rest"),
        ("a_b_2", "a.b"),
    ]
    assert registry(fields).columns == {"a.b": "a_b"}
    assert registry(fields).taken == RESERVED | {"a_b", "own", "empty", "a_b_2"}


def test_known_paths_are_left_alone() -> None:
    assert extend(registry([("b", "a")]), ["a"], 0, "fail") == extend(registry([]), [], 10, "add")


def test_above_the_limit_the_rest_goes_to_overflow() -> None:
    table = registry([("a", "a"), ("b", "b")])
    assert room(table, 3, "add") == 1
    plan = extend(table, ["e", "d", "c"], 3, "add")
    assert (plan.added, plan.overflow) == ((("c", "c"),), ("d", "e"))
    assert room(table, 1, "add") == 0
    assert extend(table, ["c"], 1, "add").added == ()


def test_ignored_paths_go_to_overflow() -> None:
    plan = extend(registry([]), ["b", "a"], 10, "ignore")
    assert (plan.added, plan.overflow, plan.refused) == ((), ("a", "b"), ())
    assert room(registry([]), 10, "ignore") == 0


def test_where_new_paths_must_not_be_the_plan_refuses_them() -> None:
    plan = extend(registry([("a", "a")]), ["c", "a", "b"], 10, "fail")
    assert (plan.added, plan.overflow, plan.refused) == ((), (), ("b", "c"))
    assert room(registry([]), 10, "fail") == 1


@given(st.lists(PATHS, max_size=12), st.lists(PATHS, max_size=6), st.integers(0, 12))
def test_names_are_legal_and_unique_and_every_path_has_one_home(
    paths: list[str], earlier: list[str], limit: int
) -> None:
    table = with_columns(registry([]), extend(registry([]), earlier, 6, "add").added)
    plan = extend(table, paths, limit, "add")
    after = with_columns(table, plan.added)
    names = list(after.columns.values())
    assert all(is_identifier(name) and re.fullmatch("[a-z_][a-z0-9_]*", name) for name in names)
    assert len({name.lower() for name in names}) == len(names)
    assert not RESERVED & set(names)
    assert {*after.columns, *plan.overflow} == {*table.columns, *paths}
    assert not after.columns.keys() & set(plan.overflow)
    assert len(plan.added) <= max(0, limit - len(table.columns))
    assert table.columns.items() <= after.columns.items()
    assert extend(after, after.columns, 0, "add") == extend(after, [], 0, "add")


@given(st.lists(PATHS, max_size=12, unique=True), st.integers(0, 5), st.data())
def test_the_first_paths_of_every_part_are_enough(paths: list[str], limit: int, data: st.DataObject) -> None:
    """What `room` promises: tasks that report their first paths only lead to the same columns."""
    parts: dict[int, list[str]] = {}
    for path in paths:
        parts.setdefault(data.draw(st.integers(0, 2)), []).append(path)
    reported = [path for part in parts.values() for path in sorted(filter(may_be_column, part))[:limit]]
    assert (
        extend(registry([]), reported, limit, "add").added == extend(registry([]), paths, limit, "add").added
    )
