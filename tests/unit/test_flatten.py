"""One definition of what a payload says: exact, strict, and deaf to threats."""

from __future__ import annotations

import json
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.payload import payload_path
from lean_ops.payload.flatten import MAX_DEPTH, MAX_REPEATED, FaultCode, Leaf, ParseFault, leaves
from tests.flatten_oracle import judge
from tests.json_cases import (
    BAD_UNICODE,
    CUT_OFF,
    EMPTY,
    MALFORMED_TEXTS,
    MALFORMED_VALUES,
    NOT_AN_OBJECT,
    SOUND_TEXTS,
    SOUND_VALUES,
    TRAILING_DATA,
)
from tests.json_texts import DOCUMENTS, damaged

FAULTS = {
    "EMPTY": EMPTY,
    "CUT_OFF": CUT_OFF,
    "MALFORMED": [*MALFORMED_TEXTS, *(f'{{"a":{value}}}' for value in MALFORMED_VALUES)],
    "TRAILING_DATA": TRAILING_DATA,
    "NOT_AN_OBJECT": NOT_AN_OBJECT,
    "BAD_UNICODE": BAD_UNICODE,
}


def said(payload: str | bytes | None) -> dict[str, tuple[str, str]] | str:
    found = leaves(payload)
    if isinstance(found, ParseFault):
        return found.code.value
    return {path: (leaf.kind, leaf.text) for path, leaf in found.items()}


def code(payload: str | bytes | None) -> str:
    found = said(payload)
    assert isinstance(found, str), "the payload was taken"
    return found


@pytest.mark.parametrize("value", SOUND_VALUES, ids=lambda value: value[:30])
def test_a_sound_value_keeps_its_exact_text(value: str) -> None:
    expected = SOUND_VALUES[value]
    assert said(f'{{"a":{value}}}') == ({} if expected is None else {"a": expected})


@pytest.mark.parametrize("text", SOUND_TEXTS)
def test_a_sound_document_gives_its_leaves_by_path(text: str) -> None:
    assert said(text) == SOUND_TEXTS[text]


@pytest.mark.parametrize(
    ("expected", "text"), [(expected, text) for expected, texts in FAULTS.items() for text in texts]
)
def test_anything_else_is_a_fault_with_a_code(expected: str, text: str) -> None:
    assert code(text) == expected
    assert judge(text) == expected


def test_the_standard_library_agrees_on_what_is_json() -> None:
    def refuse(word: str) -> None:
        raise ValueError(word)

    def is_json(text: str) -> bool:
        try:
            json.loads(text, parse_constant=refuse, parse_int=str)
        except ValueError:
            return False
        return True

    sound = [*(f'{{"a":{value}}}' for value in SOUND_VALUES), *SOUND_TEXTS, *NOT_AN_OBJECT, *BAD_UNICODE]
    broken = [text for name in ("EMPTY", "CUT_OFF", "MALFORMED", "TRAILING_DATA") for text in FAULTS[name]]
    assert [text for text in sound if not is_json(text)] == []
    assert [text for text in broken if is_json(text)] == []


@given(DOCUMENTS)
def test_sound_documents_are_read_as_a_slow_independent_reader_reads_them(text: str) -> None:
    assert said(text) == judge(text)


@given(damaged())
def test_damaged_documents_are_judged_as_a_slow_independent_reader_judges_them(text: str) -> None:
    assert said(text) == judge(text)


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40)))
def test_no_input_raises(payload: str | bytes) -> None:
    assert isinstance(leaves(payload), dict | ParseFault)


@given(DOCUMENTS)
def test_bytes_and_text_say_the_same(text: str) -> None:
    assert leaves(text.encode()) == leaves(text)


@given(DOCUMENTS)
def test_every_path_names_its_keys(text: str) -> None:
    found = leaves(text)
    assert isinstance(found, dict)
    assert [path for path in found if payload_path.join(payload_path.segments(path)) != path] == []


@given(DOCUMENTS, st.data())
def test_a_document_cut_anywhere_is_cut_off(text: str, data: st.DataObject) -> None:
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert code(cut) == "CUT_OFF"


def test_a_missing_payload_is_empty() -> None:
    assert code(None) == "EMPTY"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a":"\xff"}',
        b'{"a":["\xff"]}',
        b'{"\xff":1}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xc0\xaf"}',
        '{"a":"\ud800"}',
    ],
)
def test_bytes_that_are_no_utf_8_are_a_fault_wherever_they_stand(payload: str | bytes) -> None:
    assert code(payload) == "BAD_UNICODE"


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_depth_bomb_is_too_deep(opening: str) -> None:
    assert code('{"a":' + opening * 1_000_000) == "TOO_DEEP"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_deepest_document_is_taken_and_one_level_more_is_not(opening: str, closing: str) -> None:
    def nested(depth: int) -> str:
        return '{"a":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}"

    assert isinstance(leaves(nested(MAX_DEPTH)), dict)
    assert code(nested(MAX_DEPTH + 1)) == "TOO_DEEP"


def test_depth_is_judged_alike_on_a_nearly_full_stack() -> None:
    sound = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    verdicts = []

    def sink(frames: int) -> None:
        if frames:
            sink(frames - 1)
        else:
            verdicts.extend((isinstance(leaves(sound), dict), code('{"a":' + sound + "}")))

    thread = threading.Thread(target=sink, args=(sys.getrecursionlimit() // 2,))
    thread.start()
    thread.join()
    assert verdicts == [True, "TOO_DEEP"]


def test_brackets_inside_strings_are_no_depth() -> None:
    text = '"' + "[{" * 1000 + '\\"' + "[{" * 1000
    assert said(f'{{"a":{text}"}}') == {"a": ("string", "[{" * 1000 + '"' + "[{" * 1000)}


def test_many_brackets_side_by_side_are_no_depth() -> None:
    text = "[" + ",".join(["[{}]"] * 5000) + "]"
    assert said(f'{{"a":{text}}}') == {"a": ("array", text)}


def test_a_text_of_20_mb_arrives_whole() -> None:
    text = "x\\n" * 7_000_000
    found = leaves(f'{{"a":"{text}"}}')
    assert found == {"a": Leaf("string", "x\n" * 7_000_000)}


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("CUT_OFF", '{"a":"' + "x\\n" * 7_000_000),
        ("MALFORMED", '{"a":"' + "x" * 20_000_000 + '\n"}'),
        ("BAD_UNICODE", '{"a":"' + "x" * 20_000_000 + '\\ud800"}'),
        ("TRAILING_DATA", "{}" + "{}" * 10_000_000),
        ("CUT_OFF", '{"a":[' + '{"x":[]},' * 1_000_000),
    ],
    ids=lambda text: text[:20],
)
def test_a_broken_text_of_20_mb_is_just_broken(expected: str, text: str) -> None:
    assert code(text) == expected


def test_ten_thousand_keys_are_ten_thousand_leaves() -> None:
    document = {f"k{number}": {"deep": {"er": number}} for number in range(10_000)}
    assert said(json.dumps(document)) == {
        f"k{number}.deep.er": ("number", str(number)) for number in range(10_000)
    }


def test_paths_that_would_fill_the_memory_are_refused() -> None:
    def one_long_key_over(children: int) -> str:
        return json.dumps({"k" * 999_999: dict.fromkeys(range(children), 1)})

    most = MAX_REPEATED // 1_000_000
    assert len(leaves(one_long_key_over(most))) == most
    assert code(one_long_key_over(most + 1)) == "PATHS_TOO_LONG"


@given(damaged(), st.sampled_from(["Zq7", "秘密"]))
def test_no_detail_quotes_the_payload(text: str, secret: str) -> None:
    found = leaves(text.replace("a", secret))
    if isinstance(found, ParseFault):
        assert secret not in found.detail


def test_every_code_is_tested() -> None:
    assert {*FAULTS, "TOO_DEEP", "PATHS_TOO_LONG"} == {code.value for code in FaultCode}
