"""Lanes, calls and windows: what is sent when, with what, and how much is held."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bridge.envelope import Message
from bridge.flow import FIRST_WINDOW, Limits, next_window
from bridge.lanes import CALL_BYTES, CALL_ENTRIES, Parcel, advanced, by_key, calls, heads

WHEN = datetime(2026, 2, 6, tzinfo=UTC)


def messages(*keys: str) -> list[Message]:
    return [Message(f"r{n}", f"m{n}", WHEN, b"{}", key) for n, key in enumerate(keys)]


def receipts(lane: list[Message]) -> list[str]:
    return [message.receipt for message in lane]


def test_a_key_is_a_lane_and_a_message_without_key_is_one_too() -> None:
    lanes = by_key(messages("a", "", "b", "a", ""))
    assert [receipts(lane) for lane in lanes] == [["r0", "r3"], ["r1"], ["r2"], ["r4"]]


def test_only_the_head_of_a_lane_may_be_sent() -> None:
    assert receipts(heads(by_key(messages("a", "a", "b", "")))) == ["r0", "r2", "r3"]


def test_a_confirmed_head_moves_its_lane_and_another_stops_it() -> None:
    lanes = by_key(messages("a", "b", "c", "a", "b"))
    assert [receipts(lane) for lane in advanced(lanes, {"r0", "r2"})] == [["r3"]]


@given(st.lists(st.integers(1, CALL_BYTES), max_size=60))
def test_calls_keep_both_limits_of_sqs_and_carry_everything_once(sizes: list[int]) -> None:
    parcels = [Parcel(m, "", s) for m, s in zip(messages(*[""] * len(sizes)), sizes, strict=True)]
    packed = list(calls(parcels))
    assert [parcel for call in packed for parcel in call] == parcels
    assert all(1 <= len(call) <= CALL_ENTRIES for call in packed)
    assert all(sum(parcel.size for parcel in call) <= CALL_BYTES for call in packed)


def test_the_window_grows_to_the_limit_and_never_beyond() -> None:
    limits = Limits(messages=100, bytes=10**9)
    window, seen = FIRST_WINDOW, []
    for _ in range(5):
        window = next_window(limits, window, messages(*"abc"))
        seen.append(window)
    assert seen == [32, 64, 100, 100, 100]


def test_an_empty_pull_leaves_the_window_alone() -> None:
    assert next_window(Limits(), 64, []) == 64


@given(
    size=st.integers(1, 10_000_000),
    count=st.integers(1, 20),
    window=st.integers(1, 1000),
    budget=st.integers(1),
)
def test_messages_as_large_as_the_last_ones_fit_into_the_bytes(
    size: int, count: int, window: int, budget: int
) -> None:
    pulled = [Message("r", "m", WHEN, bytes(size))] * count
    following = next_window(Limits(1000, budget), window, pulled)
    assert following == 1 or following * size <= budget
