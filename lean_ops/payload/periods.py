"""The period of a record: the month its payload names, else the month (UTC) in which it was published."""

from __future__ import annotations

import re

# Written out, because `\d` also takes the digits of other scripts.
_MONTH = re.compile(r"(?:19|2[0-9])[0-9]{2}-(?:0[1-9]|1[0-2])")


def is_period(text: str) -> bool:
    """Whether a text is a month from 1900-01 to 2999-12. Anything else is nonsense, counted and not used."""
    return _MONTH.fullmatch(text) is not None


def month(year: int, month_of_year: int) -> str:
    """A month as text."""
    return f"{year:04d}-{month_of_year:02d}"
