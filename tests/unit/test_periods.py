"""Which month a record belongs to."""

from __future__ import annotations

import pytest

from lean_ops.periods import Period, is_period, month, period_reference


@pytest.mark.parametrize("text", ["1900-01", "1999-12", "2026-01", "2026-10", "2999-12"])
def test_a_month_is_a_period(text: str) -> None:
    assert is_period(text)
    assert period_reference(text, "2026-11") == Period(text, nonsense=False)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1899-12", "3000-01", "2026-00", "2026-13", "2026-1", "2026-011", "2026-01-01", "2026/01"),
        *(
            " 2026-01",
            "2026-01 ",
            "2026-01\n",
            "2026-01\x00",
            "-2026-01",
            "202601",
            "26-01",
            "20٢٦-01",
            "2026-0\u0661",
        ),
        *("null", "[]", "2026", "true", "{}"),
    ],
)
def test_anything_else_is_nonsense_and_falls_back_to_the_month_of_publication(text: str) -> None:
    assert not is_period(text)
    assert period_reference(text, "2026-11") == Period("2026-11", nonsense=True)


def test_a_missing_period_is_no_nonsense() -> None:
    assert period_reference(None, "2026-11") == Period("2026-11", nonsense=False)


def test_a_month_is_written_with_four_and_two_digits() -> None:
    assert (month(2026, 1), month(999, 12)) == ("2026-01", "0999-12")
