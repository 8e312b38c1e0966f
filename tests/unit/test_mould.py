"""The mould changes how fast payloads are read, never what is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_ops.payload.flatten import Kind, Leaf, ParseFault, leaves
from lean_ops.payload.mould import Mould
from lean_ops.payload.tabulate import Texts, tabulate
from tests.json_texts import ALIKE_DOCUMENTS, DOCUMENTS, damaged

KINDS: tuple[Kind, ...] = ("string", "number", "boolean", "array", "object")
ONE = st.one_of(ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, DOCUMENTS, damaged()).map(str.encode)
PAYLOADS = st.lists(st.one_of(ONE, ONE, ONE, st.none()), max_size=6)
NOTHING_FITS = Mould({}, exact=True)


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


def test_a_key_without_a_column_is_found_and_still_kept_in_overflow() -> None:
    texts = tabulate([b'{"a":{"b":"x"}}'], NOTHING_FITS, ["c"], ["a.b"])
    assert texts.columns == {"a.b": ["x"], "c": [None]}
    assert texts.overflow == ['{"a.b":"x"}']


def tabulated(payloads: list[bytes | None], known: dict[str, set[Kind]]) -> Texts:
    return tabulate(payloads, Mould(known, exact=True), known.keys())


@settings(max_examples=300)
@given(PAYLOADS, st.data())
def test_texts_are_the_same_with_any_mould_and_with_none(
    payloads: list[bytes | None], data: st.DataObject
) -> None:
    known = data.draw(known_of(payloads))
    assert tabulated(payloads, known) == tabulate(payloads, NOTHING_FITS, known.keys())


@given(PAYLOADS, st.data())
def test_the_table_holds_every_leaf_exactly_once(payloads: list[bytes | None], data: st.DataObject) -> None:
    texts = tabulated(payloads, data.draw(known_of(payloads)))
    for row, payload in enumerate(payloads):
        in_columns = {
            path: texts.columns[path][row] for path in texts.columns if texts.columns[path][row] is not None
        }
        in_overflow = json.loads(texts.overflow[row] or "{}")
        assert not in_columns.keys() & in_overflow.keys()
        assert in_columns | in_overflow == {path: leaf.text for path, leaf in found_in(payload).items()}
        assert (row in texts.faults) == isinstance(leaves(payload), ParseFault)


@given(PAYLOADS, st.data())
def test_a_document_of_unknown_paths_or_kinds_never_fits_a_mould_of_kinds(
    payloads: list[bytes | None], data: st.DataObject
) -> None:
    known = data.draw(known_of(payloads))
    mould = Mould(known, exact=False)
    fit = mould.fit(payloads)
    for row, payload in enumerate(payloads):
        unknown = [
            path for path, leaf in found_in(payload).items() if leaf.kind not in known.get(path, set())
        ]
        assert not unknown or row in fit.misfits
    fitting = [found_in(payload) for row, payload in enumerate(payloads) if row not in fit.misfits]
    for path in known:
        assert {leaves_[path].kind for leaves_ in fitting if path in leaves_} <= mould.kinds(fit, path)
        assert mould.kinds(fit, path) <= {
            found_in(payload)[path].kind for payload in payloads if path in found_in(payload)
        }


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
@pytest.mark.parametrize("exact", [True, False])
def test_ordinary_documents_do_fit(known: dict[str, set[Kind]], payload: str, exact: bool) -> None:
    assert Mould(known, exact=exact).fit([payload.encode()]).misfits == set()


@pytest.mark.parametrize(
    "payload", ['{"a":{}}', '{"a":{"b":null}}', '{"a":[1]}', '{"a":1}', '{"c":1}', "[]", "{"]
)
def test_what_the_fields_cannot_tell_apart_does_not_fit(payload: str) -> None:
    known: dict[str, set[Kind]] = {"a.b": {"string"}}
    mould = Mould(known, exact=False)
    assert mould.fit([payload.encode(), b'{"a":{"b":"x"}}']).misfits == {0}


EXAMPLES: dict[Kind, str] = {
    "string": '"1"',
    "number": "1",
    "boolean": "true",
    "array": "[1]",
    "object": "{}",
}


@pytest.mark.parametrize("value", EXAMPLES)
@pytest.mark.parametrize("known", EXAMPLES)
def test_a_mould_of_kinds_takes_the_known_kind_only(known: Kind, value: Kind) -> None:
    misfits = Mould({"a": {known}}, exact=False).fit([f'{{"a":{EXAMPLES[value]}}}'.encode()]).misfits
    assert misfits == (set() if value == known else {0})


def test_a_mould_of_two_thousand_columns_reads_any_order_of_keys() -> None:
    known: dict[str, set[Kind]] = {f"k{number}": {"string"} for number in range(2000)}
    document = {path: f"text of {path}" for path in reversed(known)}
    texts = tabulated([json.dumps(document).encode()], known)
    assert {path: column[0] for path, column in texts.columns.items()} == document
    assert texts.overflow == [None]


def test_a_bomb_inside_an_array_is_seen_by_every_mould() -> None:
    bomb = b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"
    for exact in (True, False):
        assert Mould({"a": {"array"}}, exact=exact).fit([bomb]).misfits == {0}
