"""A payload path names exactly one place, whatever the keys are, and a typo never names another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.payload.payload_path import MAX_LENGTH, check, join, segments

# Any keys that JSON allows, with what is special in a path far more often than chance would have it.
KEYS = st.lists(st.text() | st.text(alphabet=".\\e a"), min_size=1).map(tuple)


@given(KEYS)
def test_every_sequence_of_keys_survives_as_text(keys: tuple[str, ...]) -> None:
    assert segments(join(keys)) == keys


@given(st.text(alphabet=".\\e ab"))
def test_a_path_is_refused_or_the_only_text_for_its_keys(path: str) -> None:
    try:
        keys = segments(path)
    except ValueError:
        return
    assert join(keys) == path


@given(KEYS, KEYS)
def test_two_places_never_share_a_text(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (join(one) == join(other)) == (one == other)


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("orderId", ("orderId",)),
        ("event.userId", ("event", "userId")),
        (r"a\.b.c", ("a.b", "c")),
        (r"a\\.b", ("a\\", "b")),
        (r"a\\\.b", (r"a\.b",)),
        (r"\e", ("",)),
        (r"a.\e.b", ("a", "", "b")),
        (r"\\e", (r"\e",)),
        (" ", (" ",)),
        ("a\nb", ("a\nb",)),
        ("_metadata.idempotencyKeyResource", ("_metadata", "idempotencyKeyResource")),
    ],
)
def test_the_text_form_of_a_path(path: str, keys: tuple[str, ...]) -> None:
    assert segments(path) == keys


@pytest.mark.parametrize("path", ["", ".", ".a", "a.", "a..b", "\\", "a\\", r"a\b", r"\ea", r"a\e", r"\e\e"])
def test_a_malformed_path_says_what_a_path_is(path: str) -> None:
    with pytest.raises(ValueError, match="keys joined by dots, none of them empty"):
        check(path)


def test_a_path_has_a_greatest_length() -> None:
    assert check("a" * MAX_LENGTH)
    with pytest.raises(ValueError, match=f"at most {MAX_LENGTH} characters"):
        check("a" * (MAX_LENGTH + 1))
