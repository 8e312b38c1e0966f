"""A finding: one fault of one file, precise enough that its reader can mend it without asking."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

SHOWN_LENGTH = 60
_KEY_LENGTH = 120
_LONGEST_WORD = 80


class UnfitError(ValueError):
    """A value that cannot stand: what is expected instead, and the nearest spelling that would do."""

    def __init__(self, expected: str, nearest: str = "") -> None:
        super().__init__(expected)
        self.nearest = nearest


@dataclass(frozen=True, order=True)
class Finding:
    """What was found where, what is expected there, and the nearest valid spelling when there is one."""

    file: str
    line: int
    key: str
    found: str
    expected: str
    nearest: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = clipped(self.key, _KEY_LENGTH) or "(whole file)"
        hint = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return printable(f"{place}: {key}: found {self.found}; expected {self.expected}.{hint}")

    def as_dict(self) -> dict[str, object]:
        return {
            "file": self.file,
            "line": self.line,
            "key": self.key,
            "found": self.found,
            "expected": self.expected,
            "nearest": self.nearest,
        }


def shown(value: object) -> str:
    """A value as it may appear in a message: one line, and short even when the value is not."""
    if value is None:
        return "nothing"
    return clipped(str(value).lower() if isinstance(value, bool) else repr(value), SHOWN_LENGTH)


def clipped(text: str, length: int) -> str:
    """The text, cut where it would fill more than its share of a line."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def printable(text: str) -> str:
    """The text with every control character spelled out: a file under review never steers a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def nearest(word: object, candidates: Iterable[str]) -> str:
    """The candidate that `word` most likely meant, or an empty string."""
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        return ""
    spellings = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), spellings, n=1, cutoff=0.6)
    return spellings[matches[0]] if matches and spellings[matches[0]] != word else ""
