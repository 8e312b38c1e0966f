"""The mould changes how fast payloads are read, never what is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_ops.payload.flatten import Kind, Leaf, ParseFault, leaves
from lean_ops.payload.mould import Mould
from tests.json_texts import ALIKE_DOCUMENTS, DOCUMENTS, damaged

KINDS: tuple[Kind, ...] = ("string", "number", "boolean", "array", "object")
ONE = st.one_of(ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, DOCUMENTS, damaged()).map(str.encode)
PAYLOADS = st.lists(st.one_of(ONE, ONE, ONE, st.none()), max_size=6)


def found_in(payload: bytes | None) -> dict[str, Leaf]:
    found = leaves(payload)
    return {} if isinstance(found, ParseFault) else found


@st.composite
def known_of(draw: st.DrawFn, payloads: list[bytes | None]) -> dict[str, set[Kind]]:
    """Paths that a table may know when it meets these payloads, with kinds that may be right, wrong or lost."""
    known: dict[str, set[Kind]] = {}
    all_of_them = draw(st.booleans())
    for payload in payloads:
        for path, leaf in found_in(payload).items():
            if all_of_them or draw(st.booleans()):
                known.setdefault(path, set()).add(leaf.kind)
    if not all_of_them:
        wrong = draw(st.lists(st.sampled_from(sorted(known)))) if known else []
        known |= {path: draw(st.sets(st.sampled_from(KINDS))) for path in wrong}
    for path in draw(st.lists(st.sampled_from(["a", "b", "a.b", "a.b.c", "\\e", 'q"', "not. a path"]))):
        known.setdefault(path, set()).update(draw(st.sets(st.sampled_from(KINDS))))
    return known


@settings(max_examples=300)
@given(PAYLOADS, st.data())
def test_what_fits_is_told_as_leaves_tell_it(payloads: list[bytes | None], data: st.DataObject) -> None:
    known = data.draw(known_of(payloads))
    moulded = Mould(known).read(payloads)
    kinds: dict[str, set[Kind]] = {path: set() for path in moulded.texts}
    for row, payload in enumerate(payloads):
        texts = {path: column[row] for path, column in moulded.texts.items() if column[row] is not None}
        if row in moulded.misfits:
            assert texts == {}
        else:
            assert not isinstance(leaves(payload), ParseFault)
            assert texts == {path: leaf.text for path, leaf in found_in(payload).items()}
            for path, leaf in found_in(payload).items():
                kinds[path].add(leaf.kind)
    assert moulded.kinds == kinds


@pytest.mark.parametrize(
    ("known", "payload"),
    [
        ({"a": {"string"}}, '{"a":"x"}'),
        ({"a": {"number"}}, '{"a":-0}'),
        ({"a": {"boolean"}}, '{"a":true}'),
        ({"a": {"array"}}, '{"a":[1,"x"]}'),
        ({"a": {"object"}}, '{"a":{}}'),
        ({"a": {"string", "number"}}, '{"a":1}'),
        ({"a": {"string"}}, '{"a":null}'),
        ({"a": {"string"}}, "{}"),
        ({"a.b": {"string"}}, '{"a":{"b":"x"}}'),
        ({"a.b": {"string"}}, '{"a":null}'),
        ({"a": {"string"}, "a.b": {"string"}}, '{"a":"x"}'),
        ({"a": {"string"}, "a.b": {"string"}}, '{"a":{"b":"x"}}'),
        ({"\\e.é\\.": {"string"}}, '{"":{"é.":"x"}}'),
    ],
)
def test_ordinary_documents_do_fit(known: dict[str, set[Kind]], payload: str) -> None:
    assert Mould(known).read([payload.encode()]).misfits == set()


@pytest.mark.parametrize(
    "payload", ['{"a":{}}', '{"a":{"b":null}}', '{"a":[1]}', '{"a":1}', '{"c":1}', "[]", "{"]
)
def test_what_the_fields_cannot_tell_apart_does_not_fit(payload: str) -> None:
    known: dict[str, set[Kind]] = {"a.b": {"string"}}
    assert Mould(known).read([payload.encode(), b'{"a":{"b":"x"}}']).misfits == {0}


def test_a_mould_of_two_thousand_columns_reads_any_order_of_keys() -> None:
    known: dict[str, set[Kind]] = {f"k{number}": {"string"} for number in range(2000)}
    document = {path: f"text of {path}" for path in reversed(known)}
    moulded = Mould(known).read([json.dumps(document).encode()])
    assert {path: column[0] for path, column in moulded.texts.items()} == document


@pytest.mark.parametrize("depth", [200, 100_000])
def test_a_bomb_inside_an_array_does_not_fit(depth: int) -> None:
    bomb = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    assert Mould({"a": {"array"}}).read([bomb, b'{"a":[[]]}']).misfits == {0}


def test_a_source_that_holds_what_sources_are_cut_at_is_not_torn() -> None:
    payloads: list[bytes | None] = [b'{"a":["\x00"]}', b'{"a":[1]}']
    moulded = Mould({"a": {"array"}}).read(payloads)
    for row, payload in enumerate(payloads):
        assert row in moulded.misfits or moulded.texts["a"][row] == found_in(payload)["a"].text
