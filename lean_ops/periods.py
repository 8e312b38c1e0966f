"""The period a record belongs to: what its payload says if that is a month, else the month it was published."""

from __future__ import annotations

import re
from typing import NamedTuple

_MONTH = re.compile(r"(?:19|2[0-9])[0-9]{2}-(?:0[1-9]|1[0-2])")


class Period(NamedTuple):
    """A period, and whether the payload named another one that makes no sense."""

    reference: str
    nonsense: bool = False


def is_period(text: str) -> bool:
    """Whether a text is a month from 1900-01 to 2999-12."""
    return _MONTH.fullmatch(text) is not None


def month(year: int, month_of_year: int) -> str:
    """A month as text."""
    return f"{year:04d}-{month_of_year:02d}"


def period_reference(text: str | None, published: str) -> Period:
    """The period of a record; `published` is the month (UTC) in which it was published."""
    if text is None:
        return Period(published)
    return Period(text) if is_period(text) else Period(published, nonsense=True)
