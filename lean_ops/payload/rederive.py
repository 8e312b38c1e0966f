"""Reads a payload once more, by another path: the standard library's JSON decoder and nothing that the jobs use.

It exists to be compared with: whoever changes flattening must not change this too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def texts_by_path(payload: str) -> dict[tuple[str, ...], str]:
    """The text of every leaf by its keys; null is no leaf, an empty object is one."""
    start = _skip(payload, 0)
    return dict(_members(payload, start, ())[0])


def _members(text: str, start: int, above: tuple[str, ...]) -> tuple[list[tuple[tuple[str, ...], str]], int]:
    """The leaves of the object that opens at `start`, and where it ends. Of a repeated key the last counts."""
    values: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    position = _skip(text, start + 1)
    while text[position] != "}":
        if text[position] == ",":
            position = _skip(text, position + 1)
        key, position = scanstring(text, position + 1, True)
        position = _skip(text, _skip(text, position) + 1)
        values[key], position = _value(text, position, (*above, key))
        position = _skip(text, position)
    return [leaf for leaves in values.values() for leaf in leaves], position + 1


def _value(text: str, start: int, path: tuple[str, ...]) -> tuple[list[tuple[tuple[str, ...], str]], int]:
    if text[start] == "{":
        leaves, end = _members(text, start, path)
        is_empty = _skip(text, start + 1) == end - 1
        return ([(path, "{}")] if is_empty else leaves), end
    value, end = _DECODER.raw_decode(text, start)
    if value is None:
        return [], end
    return [(path, value if text[start] == '"' else text[start:end])], end


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def differences(expected: dict[tuple[str, ...], str], found: dict[tuple[str, ...], str]) -> Iterator[str]:
    """The paths whose texts differ, as dotted text."""
    for path in sorted(expected.keys() | found.keys()):
        if expected.get(path) != found.get(path):
            yield ".".join(path)
