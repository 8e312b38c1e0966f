"""Drift: what is reported, when, and how often."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lean_ops.payload.drift import Action, DriftEvent, DriftState, Seen, observe
from lean_ops.payload.flatten import Kind

DAY = date(2026, 1, 1)
COLUMNS = {"a": "a", "event_userid": "event.userId"}
KINDS = st.sets(st.sampled_from(["string", "number", "boolean", "array", "object"]), min_size=1)


def after(
    state: DriftState,
    seen: Seen,
    days: int,
    columns: Mapping[str, str] = COLUMNS,
    added: tuple[str, ...] = (),
) -> tuple[DriftState, tuple[DriftEvent, ...]]:
    return observe(state, columns, added=added, seen=seen, day=DAY + timedelta(days=days), removed_after=30)


def established(**kinds: Kind) -> DriftState:
    return after(DriftState(), {name: {kind} for name, kind in kinds.items()}, 0)[0]


def test_a_new_column_is_added_with_its_kinds() -> None:
    _, events = after(
        established(a="string"), {"event_userid": {"string", "number"}}, 1, added=("event_userid",)
    )
    assert events == (DriftEvent("event_userid", "event.userId", Action.ADDED, new="number,string"),)


def test_a_kind_never_seen_before_is_a_change_reported_once() -> None:
    state, events = after(established(a="string"), {"a": {"number", "string"}}, 1, {"a": "a"})
    assert events == (DriftEvent("a", "a", Action.TYPE_CHANGED, old="string", new="number"),)
    assert after(state, {"a": {"number"}}, 2, {"a": "a"})[1] == ()
    assert after(state, {"a": {"string"}}, 3, {"a": "a"})[1] == ()


def test_a_column_unseen_for_too_long_is_removed_once_and_added_when_seen_again() -> None:
    state = established(a="string", event_userid="string")
    state, events = after(state, {"a": {"string"}}, 29)
    assert events == ()
    state, events = after(state, {"a": {"string"}}, 30)
    assert events == (
        DriftEvent(
            "event_userid", "event.userId", Action.REMOVED, old="string", detail="last seen on 2026-01-01"
        ),
    )
    state, events = after(state, {"a": {"string"}}, 80)
    assert events == ()
    state, (again, changed) = after(state, {"a": {"string"}, "event_userid": {"number"}}, 81)
    assert (again.column, again.action, again.old, again.new) == (
        "event_userid",
        "ADDED",
        "string",
        "number,string",
    )
    assert again.detail.startswith("seen again")
    assert (changed.action, changed.old, changed.new) == ("TYPE_CHANGED", "string", "number")
    assert after(state, {"a": {"string"}}, 110)[1] == ()
    assert [event.action for event in after(state, {"a": {"string"}}, 111)[1]] == ["REMOVED"]


def test_a_batch_without_any_value_removes_nothing() -> None:
    state = established(a="string", event_userid="string")
    assert after(state, {}, 365) == (state, ())


def test_a_batch_without_any_value_does_not_forget_what_was_reported() -> None:
    state, _ = after(established(a="string", event_userid="string"), {"a": {"string"}}, 30)
    state, _ = after(state, {}, 31)
    assert after(state, {"a": {"string"}}, 32)[1] == ()


def test_without_a_state_nothing_is_reported_and_counting_starts_today() -> None:
    state, events = after(DriftState(), {"a": {"number"}}, 100)
    assert events == ()
    assert after(state, {"a": {"number"}}, 129)[1] == ()
    assert [event.column for event in after(state, {"a": {"number"}}, 130)[1]] == ["event_userid"]


def test_the_kinds_of_a_column_without_a_state_are_learned_silently() -> None:
    state, _ = after(DriftState(), {"a": {"number"}}, 0)
    state, events = after(state, {"event_userid": {"string"}}, 1)
    assert events == ()
    assert [event.action for event in after(state, {"event_userid": {"number"}}, 2)[1]] == ["TYPE_CHANGED"]


def test_a_column_that_left_the_table_leaves_the_state() -> None:
    state, _ = after(established(a="string", event_userid="string"), {"a": {"string"}}, 1, {"a": "a"})
    assert state.columns.keys() == {"a"}


def test_an_older_batch_run_late_does_not_turn_the_clock_back() -> None:
    state, _ = after(established(a="string"), {"a": {"string"}}, 10)
    assert after(state, {"a": {"string"}}, 5)[0] == state


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.dictionaries(st.sampled_from(sorted(COLUMNS)), KINDS)), max_size=8
    )
)
def test_running_a_batch_again_from_the_same_state_gives_the_same(batches: list[tuple[int, Seen]]) -> None:
    state, days = DriftState(), 0
    for gap, seen in batches:
        days += gap
        restored = DriftState.from_json(json.loads(json.dumps(state.as_json())))
        assert restored == state
        first, second = after(state, seen, days), after(restored, seen, days)
        assert first == second
        state = first[0]
        assert after(state, seen, days) == (state, ())


def test_the_state_of_five_hundred_columns_is_small() -> None:
    columns = {f"event_attributes_number_{number}": "x" for number in range(500)}
    state, _ = after(DriftState(), {name: {"string", "number"} for name in columns}, 0, columns)
    assert len(json.dumps(state.as_json())) < 64_000
