"""A faster way to what `lean_ops.payload.flatten` says, for documents that hold nothing but known leaves.

The known paths become one typed decoder. A document that it takes, and that has no empty object, is fully
described by the decoder's fields; any other is a misfit, about which only `flatten.leaves` may speak. So a
mould can be out of date or incomplete without ever changing a result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import astuple

from lean_ops.payload import payload_path
from lean_ops.payload.flatten import MAX_DEPTH, Kind, kind_of, string_text

Keys = tuple[str, ...]
Texts = list[str | None]

# msgspec compares field names with the source's bytes, so it takes no name that JSON would have to escape.
_NO_FIELD_NAME = re.compile(r'["\\\x00-\x1f]')
# No sound JSON holds it, not even in a string.
_NEVER_WRITTEN = b"\x00"
_TEXT_ONLY: frozenset[Kind] = frozenset({"string"})


@dataclass(frozen=True)
class Moulded:
    """Documents in a mould: texts and kinds by path; the rows of the misfits, which have no text at all."""

    texts: dict[str, Texts]
    kinds: dict[str, set[Kind]]
    misfits: set[int]


class Mould:
    """The decoder of documents whose leaves are all known."""

    def __init__(self, known: Mapping[str, Iterable[Kind]]) -> None:
        kinds = {keys: frozenset(known[path]) for path, keys in _readable(known).items()}
        members: dict[Keys, dict[str, int]] = {(): {}}
        for keys in kinds:
            for depth in range(len(keys)):
                inside = members.setdefault(keys[:depth], {})
                inside.setdefault(keys[depth], len(inside))
        types: dict[Keys, type] = {}
        for keys in sorted(members, key=len, reverse=True):
            types[keys] = _struct({key: _annotation(kinds, types, (*keys, key)) for key in members[keys]})
        order = sorted(members, key=len)
        self._inner = [
            (order.index(keys[:-1]), members[keys[:-1]][keys[-1]], types[keys]()) for keys in order[1:]
        ]
        self._leaves = {
            payload_path.join(keys): (order.index(keys[:-1]), members[keys[:-1]][keys[-1]]) for keys in kinds
        }
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(types[()]).decode
        self._blank = types[()]()
        self._shared = [payload_path.join(keys) for keys in kinds if keys in types]
        self._as_written = {
            payload_path.join(keys): len(keys)
            for keys, own in kinds.items()
            if own != _TEXT_ONLY and keys not in types
        }

    def read(self, payloads: Sequence[bytes | None]) -> Moulded:
        """The documents in this mould. Payloads must be UTF-8: msgspec does not look at what it skips."""
        documents, misfits = self._documents(payloads)
        objects = [_fields(documents, self._blank)]
        for parent, place, blank in self._inner:
            objects.append(_fields(_instances(objects[parent][place], blank, misfits), blank))
        texts: dict[str, list[Any]] = {
            path: list(objects[parent][place]) for path, (parent, place) in self._leaves.items()
        }
        for path in self._shared:
            texts[path] = [value if value.__class__ is str else None for value in texts[path]]
        for path, depth in self._as_written.items():
            texts[path] = _sources(texts[path])
            misfits |= _unclear(texts[path], MAX_DEPTH - depth)
        for row in misfits:
            for column in texts.values():
                column[row] = None
        kinds = {path: self._settle(path, column) for path, column in texts.items()}
        return Moulded(texts, kinds, misfits)

    def _documents(self, payloads: Sequence[bytes | None]) -> tuple[list[Any], set[int]]:
        decode, blank = self._decode, self._blank
        documents, misfits = [], set()
        for row, payload in enumerate(payloads):
            try:
                documents.append(decode(payload or b""))
            except (msgspec.DecodeError, RecursionError):
                documents.append(blank)
                misfits.add(row)
        return documents, misfits

    def _settle(self, path: str, column: Texts) -> set[Kind]:
        """The kinds of a path's values. What stands there as it was written becomes text."""
        if path not in self._as_written:
            return {"string"} if any(text is not None for text in column) else set()
        firsts = {source[0] for source in column if source is not None}
        if firsts & {'"', "n"}:
            column[:] = [None if source is None else _text(source) for source in column]
        return {kind_of(first) for first in firsts if first != "n"}


def _readable(known: Iterable[str]) -> dict[str, Keys]:
    found = {}
    for path in known:
        try:
            keys = payload_path.segments(path)
        except ValueError:
            continue  # a column's doc that somebody wrote by hand
        if not any(map(_NO_FIELD_NAME.search, keys)):
            found[path] = keys
    return found


def _annotation(kinds: Mapping[Keys, frozenset[Kind]], types: Mapping[Keys, type], keys: Keys) -> Any:
    own, inner = kinds.get(keys, frozenset()), types.get(keys)
    if inner is None:
        return str | None if own == _TEXT_ONLY else msgspec.Raw
    return str | inner | None if "string" in own else inner | None


def _struct(annotations: Mapping[str, Any]) -> type:
    names = {f"f{index}": key for index, key in enumerate(annotations)}
    return msgspec.defstruct(
        "Object",
        [(name, annotations[key], None) for name, key in names.items()],
        rename=names,
        forbid_unknown_fields=True,
        frozen=True,
        gc=False,
    )


def _instances(values: Sequence[Any], blank: Any, misfits: set[int]) -> list[Any]:
    """The objects at a place; a blank one where a document has something else there."""
    objects = [value if value.__class__ is blank.__class__ else blank for value in values]
    if objects.count(blank) > sum(one is blank for one in objects):
        # Either `{}`, which is a leaf, or all its members are null, which is none: the fields cannot tell.
        misfits.update(row for row, one in enumerate(objects) if one == blank and one is not blank)
    return objects


def _fields(objects: Sequence[Any], blank: Any) -> list[Sequence[Any]]:
    """Each field of all objects."""
    return list(zip(*map(astuple, objects), strict=True)) or [()] * len(astuple(blank))


def _sources(values: Sequence[msgspec.Raw | None]) -> Texts:
    """The sources of values. Made in one piece and cut: one by one it takes three times as long."""
    whole = _NEVER_WRITTEN.join([b"" if raw is None else raw for raw in values])
    sources = str(whole, "utf-8").split(_NEVER_WRITTEN.decode()) if values else []
    if len(sources) != len(values):  # msgspec does not look at the bytes of what it skips
        sources = ["" if raw is None else str(raw, "utf-8") for raw in values]
    return [source or None for source in sources]


def _unclear(column: Texts, most: int) -> set[int]:
    """The rows with an object that is not empty, or with an array that might be nested too deep."""
    return {
        row
        for row, source in enumerate(column)
        if source is not None
        and (
            (source[0] == "[" and len(source) > most and source.count("[") + source.count("{") > most)
            or (source[0] == "{" and source != "{}")
        )
    }


def _text(source: str) -> str | None:
    if source[0] == '"':
        return string_text(source)
    return None if source[0] == "n" else source
