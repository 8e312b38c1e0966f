"""A finding: one fault of one file, precise enough that its reader can mend it without asking."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

SHOWN_LENGTH = 60


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
        hint = f" Did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{place}: {self.key or '(whole file)'}: found {self.found}; expected {self.expected}.{hint}"

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
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH else f"{text[: SHOWN_LENGTH - 1]}…"


def nearest(word: object, candidates: Iterable[str]) -> str:
    """The candidate that `word` most likely meant, or an empty string."""
    if not isinstance(word, str):
        return ""
    matches = difflib.get_close_matches(word.lower(), list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else ""
