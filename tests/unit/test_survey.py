"""A survey finds every path and kind that matters, however the payloads are cut, and never more than fits."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lean_ops.payload.survey
from lean_ops.payload.columns import may_be_column
from lean_ops.payload.flatten import Kind, ParseFault, leaves
from lean_ops.payload.survey import Findings, KnownShape, Survey
from tests.json_texts import ALIKE_DOCUMENTS, DOCUMENTS, damaged

ONE = st.one_of(ALIKE_DOCUMENTS, ALIKE_DOCUMENTS, DOCUMENTS, damaged()).map(str.encode)
CHUNKS = st.lists(st.lists(st.one_of(ONE, ONE, ONE, st.none()), max_size=4), max_size=5)
KNOWN = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a.a", "b.a", "gone", 'q"']),
    st.sets(st.sampled_from(["string", "number", "boolean", "array", "object"])).map(
        lambda kinds: tuple(sorted(kinds))
    ),
)


def read(shape: KnownShape, chunks: list[list[bytes | None]]) -> tuple[Findings, list[tuple[int, str]]]:
    survey = Survey(shape)
    read_ = [survey.read(chunk) for chunk in chunks]
    faults = [(row, fault.code.value) for texts in read_ for row, fault in texts.faults.items()]
    return survey.findings(), faults


def expected(shape: KnownShape, payloads: list[bytes | None]) -> Findings:
    """The findings by brute force."""
    found = [each for each in map(leaves, payloads) if isinstance(each, dict)]
    kinds: dict[str, set[Kind]] = {}
    for document in found:
        for path, leaf in document.items():
            kinds.setdefault(path, set()).add(leaf.kind)
    columns = dict(shape.kinds)
    new = sorted(path for path in kinds if path not in columns and may_be_column(path))[: shape.room]
    texts = [document[shape.period_path].text for document in found if shape.period_path in document]
    return Findings(
        {path: kinds[path] for path in kinds if path in columns or path in new},
        overflow=bool(kinds.keys() - columns.keys() - set(new)),
        nonsense_periods=sum(not re.fullmatch(r"(19|2[0-9])\d\d-(0[1-9]|1[0-2])", text) for text in texts),
    )


@given(CHUNKS, KNOWN, st.integers(0, 4), st.sampled_from([None, "a", "a.b", "nowhere"]))
def test_the_findings_are_those_of_brute_force(
    chunks: list[list[bytes | None]], known: dict[str, tuple[Kind, ...]], room: int, period_path: str | None
) -> None:
    shape = KnownShape(tuple(known.items()), room, period_path=period_path)
    everything = [payload for chunk in chunks for payload in chunk]
    found, faults = read(shape, chunks)
    assert found == expected(shape, everything)
    assert faults == [
        (row, fault.code.value)
        for chunk in chunks
        for row, fault in enumerate(map(leaves, chunk))
        if isinstance(fault, ParseFault)
    ]


@given(CHUNKS, KNOWN, st.integers(0, 4), st.booleans(), st.sampled_from([None, "a", "nowhere"]))
def test_every_leaf_has_one_place_or_its_row_waits_for_a_column(
    chunks: list[list[bytes | None]],
    known: dict[str, tuple[Kind, ...]],
    room: int,
    overflow: bool,
    key_path: str | None,
) -> None:
    survey = Survey(KnownShape(tuple(known.items()), room, overflow, key_path))
    read_ = [(chunk, survey.read(chunk)) for chunk in chunks]
    columns_to_come = survey.findings().kinds.keys() - known.keys()
    for chunk, texts in read_:
        for row, payload in enumerate(chunk):
            found = leaves(payload)
            if isinstance(found, ParseFault):
                assert row in texts.faults
                assert row not in texts.set_aside
                continue
            said = {path: leaf.text for path, leaf in found.items()}
            assert {path: column[row] for path, column in texts.columns.items()} == {
                path: said.get(path) for path in {*known, *([] if key_path is None else [key_path])}
            }
            rest = {path: text for path, text in said.items() if path not in known}
            if row in texts.set_aside:
                assert rest
                assert room or not overflow
            else:
                assert json.loads(texts.overflow[row] or "{}") == rest
                assert not rest.keys() & columns_to_come
                assert overflow or not rest


@given(CHUNKS, KNOWN)
def test_a_survey_without_room_sets_nothing_aside(
    chunks: list[list[bytes | None]], known: dict[str, tuple[Kind, ...]]
) -> None:
    survey = Survey(KnownShape(tuple(known.items()), 0, overflow=True))
    assert not any(survey.read(chunk).set_aside for chunk in chunks)


def test_a_key_without_a_column_is_found_and_still_kept_in_overflow() -> None:
    texts = Survey(KnownShape((("c", ()),), overflow=True, key_path="a.b")).read([b'{"a":{"b":"x"}}'])
    assert texts.columns == {"a.b": ["x"], "c": [None]}
    assert texts.overflow == ['{"a.b":"x"}']


@given(
    st.lists(st.sampled_from(["2026-01", "2026-13", "x", 2026, True, None, [], {}, {"b": 1}])),
    st.integers(1, 9),
)
def test_nonsense_periods_are_counted_once_each_however_they_are_read(
    values: list[object], size: int
) -> None:
    payloads: list[bytes | None] = [json.dumps({"p": value}).encode() for value in values]
    shape = KnownShape(room=10, period_path="p")
    chunks = [payloads[start : start + size] for start in range(0, len(payloads), size)]
    nonsense = [value for value in values if value not in ("2026-01", None, {"b": 1})]
    assert read(shape, chunks)[0].nonsense_periods == len(nonsense)


def test_after_its_first_payloads_a_new_topic_is_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    read_slowly: list[bytes | None] = []
    monkeypatch.setattr(
        lean_ops.payload.survey, "leaves", lambda payload: read_slowly.append(payload) or leaves(payload)
    )
    survey = Survey(KnownShape(room=10, period_path="c"))
    survey.read([b'{"a":{"b":1},"c":"x"}'])
    survey.read([b'{"a":{"b":2},"c":null}', b'{"a":{"b":3},"c":"2026-01"}'])
    assert survey.findings() == Findings({"a.b": {"number"}, "c": {"string"}}, nonsense_periods=1)
    assert read_slowly == [b'{"a":{"b":1},"c":"x"}']


def test_a_producer_of_random_keys_is_remembered_by_its_first_keys_only() -> None:
    survey = Survey(KnownShape(room=3))
    for start in range(0, 9000, 10):
        survey.read(
            [json.dumps({f"k{(start + step) * 7919 % 9000:04d}": step}).encode() for step in range(10)]
        )
    assert survey.findings() == Findings(
        {"k0000": {"number"}, "k0001": {"number"}, "k0002": {"number"}}, overflow=True
    )


def test_a_path_that_no_column_can_hold_is_overflow() -> None:
    for key in ("k" * 300, "line\nbreak"):
        survey = Survey(KnownShape(room=3))
        survey.read([json.dumps({key: 1}).encode()])
        assert survey.findings() == Findings({}, overflow=True)


def test_a_column_is_only_seen_where_it_has_a_value() -> None:
    shape = KnownShape((("a", ("string",)), ("b", ("string", "number"))), room=3)
    found, _ = read(shape, [[b'{"a":null,"b":1}'], [b'{"b":2}']])
    assert found.kinds == {"b": {"number"}}


def test_a_document_that_turns_out_not_to_fit_is_counted_once() -> None:
    shape = KnownShape((("p", ("string",)), ("m.k", ("string",))), period_path="p")
    found, _ = read(shape, [[b'{"p":"nonsense","m":{}}']])
    assert found == Findings({"p": {"string"}}, overflow=True, nonsense_periods=1)


def test_a_known_kind_is_seen_even_after_the_column_was_seen_with_another() -> None:
    shape = KnownShape((("a", ("string", "number")),), room=3)
    found, _ = read(shape, [[b'{"a":1,"new":true}'], [b'{"a":"x","new":true}']])
    assert found.kinds == {"a": {"number", "string"}, "new": {"boolean"}}
