"""Which month a record belongs to."""

from __future__ import annotations

import pytest

from lean_ops.payload.periods import is_period, month


@pytest.mark.parametrize("text", ["1900-01", "1999-12", "2026-01", "2026-10", "2999-12"])
def test_a_month_is_a_period(text: str) -> None:
    assert is_period(text)


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
def test_anything_else_is_nonsense(text: str) -> None:
    assert not is_period(text)


def test_a_month_is_written_with_four_and_two_digits() -> None:
    assert (month(2026, 1), month(999, 12)) == ("2026-01", "0999-12")
