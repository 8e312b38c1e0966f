"""Paths into a JSON payload: `event.userId`, with `\\.` for a dot inside a key and `\\\\` for a backslash.

The text form is unambiguous, so that it can serve as identity in contracts, topic files and column docs.
"""

from __future__ import annotations

import re

MAX_LENGTH = 1000

_PIECE = re.compile(r"(?:[^.\\]|\\[.\\])+")
_ESCAPED = re.compile(r"\\([.\\])")
_SPECIAL = re.compile(r"([.\\])")


def segments(path: str) -> tuple[str, ...]:
    """The keys a path names, outermost first. Raises ValueError for a malformed path."""
    pieces, position = [], 0
    while True:
        match = _PIECE.match(path, position)
        if match is None:
            raise ValueError("keys joined by dots, none of them empty (a dot inside a key is written \\.)")
        pieces.append(_ESCAPED.sub(r"\1", match.group()))
        position = match.end()
        if position == len(path):
            return tuple(pieces)
        if path[position] != ".":
            raise ValueError("keys joined by dots (a backslash inside a key is written \\\\)")
        position += 1


def join(keys: tuple[str, ...]) -> str:
    """The text form of a path: the inverse of `segments`."""
    return ".".join(_SPECIAL.sub(r"\\\1", key) for key in keys)


def check(path: str) -> str:
    """The path itself, for use as a model validator."""
    if len(path) > MAX_LENGTH:
        raise ValueError(f"at most {MAX_LENGTH} characters")
    segments(path)
    return path
