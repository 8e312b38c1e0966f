"""What a JSON payload says: its leaves by path, each with its kind and its exact text.

This is the one definition of flattening; `lean_ops.payload.mould` is a faster way to the same answer. Each level of an
object is decoded to the source slices of its values, so a number keeps every digit as written (`-0`, `0.10`,
`1E400`, six thousand digits) and an array its source text. Null is no leaf, an empty object is one, and of a
repeated key the last value counts. Anything but one strict JSON object is a fault; no input raises.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from lean_ops.payload import payload_path

Kind = Literal["string", "number", "boolean", "array", "object"]

# Of ours, because Python's own limits differ between versions and with the depth of the caller's stack.
MAX_DEPTH: Final = 200
# Paths repeat the keys above them: one long key over many small values would fill any memory.
MAX_REPEATED: Final = 64_000_000

_WHITE_SPACE = b" \t\n\r"
_KINDS: dict[str, Kind] = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean"}
_BRACKETS = b"[]{}"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\.",
    re.DOTALL,
)
_POSITION = re.compile(r"\(byte (\d+)\)")
_INSIDE_STRING = rb'"(?:[^"\\]++|\\[^u]|\\u[0-9a-fA-F]{4})*+'
_WHOLE_TO_THE_END = re.compile(
    rb'(?:[^"tfn]++|' + _INSIDE_STRING + rb'"|true|false|null)*+'
    rb"(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|" + _INSIDE_STRING + rb"(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?"
)

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_anything = msgspec.json.Decoder(msgspec.Raw).decode


class FaultCode(StrEnum):
    """Why a payload could not be flattened: stable words, made to be aggregated."""

    EMPTY = "EMPTY"
    CUT_OFF = "CUT_OFF"
    MALFORMED = "MALFORMED"
    NOT_AN_OBJECT = "NOT_AN_OBJECT"
    TRAILING_DATA = "TRAILING_DATA"
    TOO_DEEP = "TOO_DEEP"
    BAD_UNICODE = "BAD_UNICODE"
    PATHS_TOO_LONG = "PATHS_TOO_LONG"


class ParseFault(NamedTuple):
    """A fault of the payload itself; `detail` quotes nothing of it."""

    code: FaultCode
    detail: str


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """One value of a payload, as text. A Struct because millions are made: a NamedTuple takes five times as long."""

    kind: Kind
    text: str


def leaves(payload: str | bytes | None) -> dict[str, Leaf] | ParseFault:
    """Every leaf of a payload by its path, or why it has none. Never raises, whatever the payload."""
    try:
        source = payload.encode() if isinstance(payload, str) else payload or b""
        source.decode()  # msgspec does not look at the bytes of what it skips
    except UnicodeError:
        return ParseFault(FaultCode.BAD_UNICODE, "not UTF-8")
    if not source.strip(_WHITE_SPACE):
        return ParseFault(FaultCode.EMPTY, "nothing but white space")
    if is_too_deep(source):
        return ParseFault(FaultCode.TOO_DEEP, f"more than {MAX_DEPTH} objects and arrays in each other")
    try:
        return _walk(source)
    except msgspec.DecodeError as error:
        return _fault(source, error)


def is_too_deep(source: bytes) -> bool:
    """Whether nesting exceeds the limit. Nearly every document is cleared by counting its brackets."""
    if source.count(b"{") + source.count(b"[") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _STRING.sub(b"", source).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"{[" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def kind_of(first: str) -> Kind:
    """The kind of a value that is not null, by the first character of its source."""
    return _KINDS.get(first, "number")


def string_text(value: str) -> str:
    """The text of a sound JSON string."""
    return _string(value) if "\\" in value else value[1:-1]


def _walk(source: bytes) -> dict[str, Leaf] | ParseFault:
    found: dict[str, Leaf] = {}
    repeated = 0
    # A stack of our own: recursion would make the result depend on the caller's.
    unread = [("", _members(source))]
    while unread:
        prefix, members = unread.pop()
        repeated += len(prefix) * len(members)
        if repeated > MAX_REPEATED:
            return ParseFault(FaultCode.PATHS_TOO_LONG, f"over {MAX_REPEATED} characters of repeated keys")
        for key, raw in members.items():
            path = prefix + (payload_path.join((key,)) if not key or "." in key or "\\" in key else key)
            value = str(raw, "utf-8")
            first = value[0]
            if first == '"':
                found[path] = Leaf("string", string_text(value))
            elif first == "{":
                inner = _members(value)
                if inner:
                    unread.append((path + ".", inner))
                else:
                    found[path] = Leaf("object", "{}")
            elif first != "n":
                found[path] = Leaf(kind_of(first), value)
    return found


def _fault(source: bytes, error: msgspec.DecodeError) -> ParseFault:
    mended = source
    if _SURROGATE.search(source):
        mended = _ESCAPE.sub(lambda match: rb"\ufffd" if match["lone"] else match[0], source)
    try:
        _anything(mended)
    except msgspec.DecodeError as remaining:
        return _syntax_fault(mended, str(remaining))
    if mended != source:
        return ParseFault(FaultCode.BAD_UNICODE, "an escape of half a surrogate pair")
    return ParseFault(FaultCode.NOT_AN_OBJECT, str(error))


def _syntax_fault(source: bytes, message: str) -> ParseFault:
    if "trailing characters" in message:
        return ParseFault(FaultCode.TRAILING_DATA, message)
    position = _POSITION.search(message)
    # The decoder calls a short word or escape at the end truncated even if it is wrong, and a number that ends
    # with the text invalid right behind it.
    at_the_end = position is None or int(position[1]) >= len(source)
    if at_the_end and _WHOLE_TO_THE_END.fullmatch(source):
        return ParseFault(FaultCode.CUT_OFF, f"ends after {len(source)} bytes")
    return ParseFault(FaultCode.MALFORMED, message if position else "an unknown word or escape at the end")
