"""A finding is one line that its reader can act on, whatever stands in the file it is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.config.findings import SHOWN_LENGTH, Finding, nearest, printable, shown


def test_a_finding_reads_as_place_key_found_expected_and_hint() -> None:
    finding = Finding("topics/orders.yaml", 4, "lane", "'A'", "text", "a")
    assert str(finding) == "topics/orders.yaml:4: lane: found 'A'; expected text. Did you mean 'a'?"


def test_a_finding_about_no_line_and_no_key_speaks_of_the_whole_file() -> None:
    finding = Finding("topics/orders.yaml", 0, "", "an empty file", "lines of key: value")
    assert str(finding) == (
        "topics/orders.yaml: (whole file): found an empty file; expected lines of key: value."
    )


@given(st.text(), st.text(), st.text())
def test_a_finding_is_one_line_that_never_steers_a_terminal(file: str, key: str, found: str) -> None:
    assert str(Finding(file, 1, key, shown(found), "text")).isprintable()


def test_a_finding_about_a_long_key_stays_short() -> None:
    assert len(str(Finding("t.yaml", 1, "k" * 60_000, "an unknown key", "another"))) < 200


@given(st.text())
def test_printable_text_is_left_alone_and_other_text_can_be_told_apart(text: str) -> None:
    assert printable(text) == text if text.isprintable() else printable(text) != text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        ("yes", "'yes'"),
        ("a\nb", r"'a\nb'"),
        ([1, "a"], "[1, 'a']"),
    ],
)
def test_values_are_shown_as_the_writer_of_the_file_knows_them(value: object, words: str) -> None:
    assert shown(value) == words


def test_a_long_value_is_cut() -> None:
    text = shown("x" * 1000)
    assert len(text) == SHOWN_LENGTH
    assert text.endswith("…")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("eror_rate", "error_rate"),
        ("ERROR_RATE", "error_rate"),
        ("g.1x", "G.1X"),
        ("zzz", ""),
        ("", ""),
        (15, ""),
        (None, ""),
        ("error_rate", ""),  # not a misspelling of itself: something else is wrong with it
        ("error_rate" * 10_000, ""),
    ],
)
def test_the_nearest_spelling_is_offered_only_when_there_is_one(word: object, meant: str) -> None:
    assert nearest(word, ["error_rate", "min_records", "G.1X"]) == meant
