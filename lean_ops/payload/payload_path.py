"""Paths into a JSON payload: `event.userId`, with `\\.` for a dot inside a key and `\\\\` for a backslash.

The text form is unambiguous, so that it can serve as identity in contracts, topic files and column docs. JSON
also allows an empty key; it is written `\\e`, so that a doubled or trailing dot stays what it is: a typo.
"""

from __future__ import annotations

import re

MAX_LENGTH = 1000

_EXPECTED = r"keys joined by dots, none of them empty (inside a key, \. is a dot and \\ a backslash)"
_EMPTY = r"\e"
_KEY = r"(?:\\e(?=\.|\Z)|(?:[^.\\]|\\[.\\])+)"
_PATH = re.compile(rf"{_KEY}(?:\.{_KEY})*")
_KEYS = re.compile(_KEY)
_ESCAPED = re.compile(r"\\([.\\])")
_SPECIAL = re.compile(r"([.\\])")


def segments(path: str) -> tuple[str, ...]:
    """The keys a path names, outermost first. Raises ValueError for a malformed path."""
    if not _PATH.fullmatch(path):
        raise ValueError(_EXPECTED)
    return tuple("" if key == _EMPTY else _ESCAPED.sub(r"\1", key) for key in _KEYS.findall(path))


def join(keys: tuple[str, ...]) -> str:
    """The text form of a path: the inverse of `segments`."""
    return ".".join(_SPECIAL.sub(r"\\\1", key) or _EMPTY for key in keys)


def check(path: str) -> str:
    """The path itself, for use as a model validator."""
    if len(path) > MAX_LENGTH:
        raise ValueError(f"at most {MAX_LENGTH} characters")
    segments(path)
    return path
