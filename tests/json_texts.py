"""Strategies for JSON texts: sound ones in every spelling the grammar allows, and damaged ones."""

from __future__ import annotations

from hypothesis import strategies as st

SPACE = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n"])
NUMBERS = st.one_of(
    st.sampled_from(
        ["0", "-0", "-0.0", "1E400", "-1e-400", "0.10", "12345678901234567890.50", "1e+5", "9" * 40]
    ),
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
KEYS = st.one_of(
    st.sampled_from(["a", "b", "c", "A", "", ".", "\\", "a.b", "a_b", '"', "é", "\x00", "\U0001f600", "\\e"]),
    st.text(max_size=4),
)


@st.composite
def strings(draw: st.DrawFn, contents: st.SearchStrategy[str]) -> str:
    """A string literal: each character as it is, as its short escape or as \\u escapes, where that is legal."""
    pieces = []
    for character in draw(contents):
        units = character.encode("utf-16-be", "surrogatepass")
        spelled = "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))
        forms = [spelled]
        if character >= " " and character not in '"\\' and not "\ud800" <= character <= "\udfff":
            forms += [character, character, character]
        if character in '"\\/':
            forms += ["\\" + character]
        pieces.append(draw(st.sampled_from(forms)))
    return '"' + "".join(pieces) + '"'


_ANY_KEYS = strings(KEYS)
TEXTS = strings(st.text(max_size=6))
SCALARS = st.one_of(TEXTS, NUMBERS, st.sampled_from(["true", "false", "null"]))


@st.composite
def _arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    return "[" + ",".join(draw(st.lists(_spaced(values), max_size=3)) or [draw(SPACE)]) + "]"


@st.composite
def _objects(
    draw: st.DrawFn, values: st.SearchStrategy[str], keys: st.SearchStrategy[str] = _ANY_KEYS
) -> str:
    members = draw(st.lists(st.tuples(_spaced(keys), _spaced(values)), max_size=4))
    return "{" + (",".join(f"{key}:{value}" for key, value in members) or draw(SPACE)) + "}"


@st.composite
def _spaced(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    return draw(SPACE) + draw(values) + draw(SPACE)


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(_arrays(inner), _objects(inner)), max_leaves=8)
DOCUMENTS = _objects(VALUES)

# Few keys and few values, so that documents meet each other in the same paths.
_ALIKE_KEYS = st.sampled_from(['"a"', '"b"', '"\\u0062"'])
_ALIKE_VALUES = st.recursive(
    st.sampled_from(['"x"', '"\\n"', "1", "-0", "1E400", "true", "null", "[1, {}]", "{}", "{ }"]),
    lambda inner: _objects(inner, _ALIKE_KEYS),
    max_leaves=6,
)
ALIKE_DOCUMENTS = _objects(_ALIKE_VALUES, _ALIKE_KEYS)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A document with a few characters cut out, put in or replaced, or cut off."""
    text = draw(_spaced(st.one_of(DOCUMENTS, VALUES)))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        stop = draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + draw(st.text('{}[]",:\\u0dD8cC1.eE+-tfn \x00é\ufeff', max_size=3)) + text[stop:]
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text
