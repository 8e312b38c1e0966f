"""A faster way to what `lean_ops.payload.flatten` says, for documents that hold nothing but known leaves.

The known paths become one typed decoder. A document that it takes, and that has no empty object, is fully
described by the decoder's fields; any other is a misfit, about which only `flatten.leaves` may speak. So a
mould can be out of date or incomplete without ever changing a result.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lean_ops.payload import payload_path
from lean_ops.payload.flatten import Kind, is_too_deep, string_text

Keys = tuple[str, ...]

# msgspec compares field names with the source's bytes, so it takes no name that JSON would have to escape.
_NO_FIELD_NAME = re.compile(r'["\\\x00-\x1f]')
_TEXT_ONLY: frozenset[Kind] = frozenset({"string"})


class _Array(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Any array: without fields of its own, its elements are checked and skipped."""


class _Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An object that never had a member."""


_TYPES: dict[Kind, Any] = {
    "string": str,
    "number": int | float,
    "boolean": bool,
    "array": _Array,
    "object": _Empty,
}
_KIND_OF_TYPE: dict[type, Kind] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    _Array: "array",
    _Empty: "object",
}


@dataclass(frozen=True)
class _Place:
    """A field: the object it is in, and how to get it from there."""

    parent: int
    get: Callable[[Any], Any]
    inner: type | None = None


@dataclass(frozen=True)
class Fit:
    """A batch of documents in a mould: for each object of the mould its instances, one per document."""

    objects: list[list[Any]]
    misfits: set[int] = field(default_factory=set)


class Mould:
    """The decoder of documents whose leaves are all known.

    With `exact` it keeps the texts, otherwise only the kinds: then a value of an unknown kind is a misfit.
    """

    def __init__(self, known: Mapping[str, Iterable[Kind]], *, exact: bool) -> None:
        kinds = {keys: frozenset(known[path]) for path, keys in _readable(known).items()}
        members: dict[Keys, dict[str, None]] = {(): {}}
        for keys in kinds:
            for depth in range(len(keys)):
                members.setdefault(keys[:depth], {})[keys[depth]] = None
        types: dict[Keys, type] = {}
        for keys in sorted(members, key=len, reverse=True):
            types[keys] = _struct(
                {key: _annotation(kinds, types, (*keys, key), exact=exact) for key in members[keys]}
            )
        order = sorted(members, key=len)
        places = {
            (*keys, key): _Place(
                parent,
                operator.attrgetter(f"f{index}"),
                types.get((*keys, key)),
            )
            for parent, keys in enumerate(order)
            for index, key in enumerate(members[keys])
        }
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(types[()]).decode
        self._blank = types[()]()
        self._inner = [(places[keys], types[keys]()) for keys in order[1:]]
        self._leaves = {payload_path.join(keys): places[keys] for keys in kinds}
        self._raw = {
            payload_path.join(keys)
            for keys, own in kinds.items()
            if exact and own != _TEXT_ONLY and keys not in types
        }

    def fit(self, payloads: Sequence[bytes | None]) -> Fit:
        """The documents in this mould. Payloads must be UTF-8: msgspec does not look at what it skips."""
        decode, documents, misfits = self._decode, [], set()
        for row, payload in enumerate(payloads):
            if payload is not None and not is_too_deep(payload):
                try:
                    documents.append(decode(payload))
                    continue
                except msgspec.DecodeError:
                    pass
            documents.append(self._blank)
            misfits.add(row)
        fit = Fit([documents], misfits)
        for place, blank in self._inner:
            fit.objects.append(_instances(fit, place, blank))
        return fit

    def values(self, fit: Fit, path: str) -> list[Any]:
        """The values of a path, None where it has none; one for each document, misfits included."""
        place = self._leaves.get(path)
        if place is None:
            return [None] * len(fit.objects[0])
        values = list(map(place.get, fit.objects[place.parent]))
        return (
            [None if value.__class__ is place.inner else value for value in values] if place.inner else values
        )

    def kinds(self, fit: Fit, path: str) -> set[Kind]:
        """The kinds of a path's values among the documents that fit."""
        return {
            _KIND_OF_TYPE[each] for each in set(map(type, self.values(fit, path))) if each in _KIND_OF_TYPE
        }

    def texts(self, fit: Fit, path: str) -> list[str | None]:
        """The texts of a path among the documents that fit. May find further misfits."""
        values = self.values(fit, path)
        if path not in self._raw:
            return values
        texts = [None if raw is None else str(raw, "utf-8") for raw in values]
        for row, text in enumerate(texts):
            if text is not None and text[0] in '"{n':
                texts[row] = _other_text(fit, row, text)
        return texts


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


def _annotation(
    kinds: Mapping[Keys, frozenset[Kind]], types: Mapping[Keys, type], keys: Keys, *, exact: bool
) -> Any:
    own, inner = kinds.get(keys, frozenset()), types.get(keys)
    if exact and inner is None:
        return str | None if own == _TEXT_ONLY else msgspec.Raw
    allowed = own & _TEXT_ONLY if exact else own
    choices = [_TYPES[kind] for kind in sorted(allowed) if not (inner and kind == "object")]
    # msgspec allows one Struct in a union, and an object with members says more than an array.
    if inner or _Empty in choices:
        choices = [choice for choice in choices if choice is not _Array]
    return functools.reduce(operator.or_, [*choices, *([inner] if inner else []), None])


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


def _instances(fit: Fit, place: _Place, blank: Any) -> list[Any]:
    values = list(map(place.get, fit.objects[place.parent]))
    if blank in values:
        # Either `{}`, which is a leaf, or all its members are null, which is none: the fields cannot tell.
        fit.misfits.update(row for row, value in enumerate(values) if value == blank)
    return [value if value.__class__ is place.inner else blank for value in values]


def _other_text(fit: Fit, row: int, source: str) -> str | None:
    """The text of a value that is not its own source."""
    if source.startswith('"'):
        return string_text(source)
    if source.startswith("{") and source != "{}":
        fit.misfits.add(row)
    return source if source == "{}" else None
