"""YAML under review: what a reviewer cannot see at a glance is refused, and nothing breaks the parser."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.config.strict_yaml import MAX_BYTES, MAX_DEPTH, REFUSED, Parsed, parse
from tests.repositories import ROOT


def parsed(text: str | bytes) -> Parsed:
    return parse("a.yaml", text.encode() if isinstance(text, str) else text)


def data(text: str) -> dict[str, Any]:
    result = parsed(text)
    assert result.findings == ()
    assert result.document is not None
    return result.document.data


def faults(text: str | bytes) -> list[tuple[int, str, str]]:
    return [(finding.line, finding.key, finding.found) for finding in parsed(text).findings]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("text", "text"),
        ('"text"', "text"),
        ("'1'", "1"),
        ("15", 15),
        ("-3", -3),
        ("0", 0),
        ("0.05", 0.05),
        ("1.5e-3", 0.0015),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("[a, 1]", ["a", 1]),
        ("{b: 1}", {"b": 1}),
        ("yes", "yes"),  # YAML 1.1 says true
        ("off", "off"),  # YAML 1.1 says false
        ("2026-01-31", "2026-01-31"),  # YAML 1.1 says a date
        ("1e3", "1e3"),  # YAML 1.1 says text, YAML 1.2 a number: the model refuses it
    ],
)
def test_a_value_is_what_a_reviewer_reads(written: str, value: object) -> None:
    found = data(f"key: {written}\n")["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "written",
    ["010", "0x1F", "0b11", "1_000", "+5", "1:30", "190:20:30.15", ".5", "5.", ".inf", "-.inf", ".nan",
     "1.0e+400", "9" * 5000],
)  # fmt: skip
def test_a_number_that_readers_take_differently_is_refused(written: str) -> None:
    (finding,) = parsed(f"a: 1\nkey: {written}\n").findings
    assert (finding.line, finding.key) == (2, "key")
    assert finding.expected == "a plain number, or text in quotes"


@pytest.mark.parametrize(
    "value",
    ["!!python/object/apply:os.system [true]", "!!binary aGk=", "!!set {a}", "!mine x", "!!seq {a: b}",
     "!!seq text", "!!map [a]", "!!str [a]", "!!int {a: 1}", "!<%1b[31m> x", "="],
)  # fmt: skip
def test_a_tag_that_makes_anything_but_plain_data_is_refused(value: str) -> None:
    (finding,) = parsed(f"a: 1\nkey: {value}\n").findings
    assert (finding.line, finding.key) == (2, "key")
    assert finding.found.startswith("the tag ")


def test_a_refused_value_leaves_a_mark_and_not_a_guess() -> None:
    document = parsed("key: !!set {a}\n").document
    assert document is not None
    assert document.data == {"key": REFUSED}


@pytest.mark.parametrize("key", ["1", "null", "[a]", "{a: 1}", "<<", "2026-01-31", "? [a, b]\n"])
def test_a_key_is_text(key: str) -> None:
    (finding,) = parsed(f"a: 1\n{key}: {{b: 1}}\n").findings
    assert finding.line in (2, 3)
    assert finding.found == "a key that is not text"


@pytest.mark.parametrize("key", ["on", "true", "yes", "n"])
def test_a_key_that_yaml_takes_for_a_boolean_is_the_text_it_is_written_with(key: str) -> None:
    assert data(f"{key}: 1\n") == {key: 1}


# ---------------------------------------------------------------- repetition


def test_every_repeated_key_is_refused_where_it_stands_again() -> None:
    assert faults("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n'a': 4\n") == [
        (4, "b.c", "the key a second time"),
        (5, "a", "the key a second time"),
        (6, "a", "the key a second time"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x 1\nb: *x\n", [(2, "b")]),
        ("a: &x {k: 1}\nb:\n  c: *x\n", [(3, "b.c")]),
        ("a: &x 1\nb: [*x, *x]\n", [(2, "b[0]"), (2, "b[1]")]),
        ("a: &x k\n*x : 1\n", [(2, "k")]),
        ("&r\na: *r\n", [(2, "a")]),
        ("a: &x [*x]\n", [(1, "a[0]")]),
    ],
)
def test_an_alias_is_refused_wherever_it_stands(text: str, expected: list[tuple[int, str]]) -> None:
    found = parsed(text).findings
    assert [(finding.line, finding.key) for finding in found] == expected
    assert {finding.found for finding in found} == {"an alias (*name)"}


def test_an_alias_bomb_is_defused_without_being_unfolded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    result = parsed("\n".join(lines))
    assert len(result.findings) == 29 * 9
    assert {finding.found for finding in result.findings} == {"an alias (*name)"}


# ---------------------------------------------------------------- files that cannot be read


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"", 1, "an empty file"),
        (b"# only a comment\n", 1, "an empty file"),
        (b"- a\n- b\n", 1, "no plain mapping at the top"),
        (b"\n\njust text\n", 3, "no plain mapping at the top"),
        (b"!!python/object:os.environ {a: 1}\n", 1, "no plain mapping at the top"),
        (b"a: 1\nb: [1, 2\n", 3, "broken YAML"),
        (b"a: 1\nb: c: d\n", 2, "broken YAML"),
        (b"a: 1\n\tb: 2\n", 2, "broken YAML"),
        (b"a: *nowhere\n", 1, "broken YAML"),
        (b"a: 1\n---\nb: 2\n", 2, "broken YAML"),
        (b'a: "\\ud800"\n', 1, "broken YAML"),
        (b"a: \x00\n", 0, "broken YAML"),
        (b"a: \xff\n", 0, "a byte that is not UTF-8 at offset 3"),
        ("a: ä\n".encode("utf-16"), 0, "a byte that is not UTF-8 at offset 0"),
        pytest.param(b"a: " + b"x" * MAX_BYTES, 0, f"more than {MAX_BYTES} bytes", id="too large"),
    ],
)
def test_a_file_that_cannot_be_read_says_why_and_where(content: bytes, line: int, found: str) -> None:
    result = parsed(content)
    (finding,) = result.findings
    assert result.document is None
    assert (finding.file, finding.line, finding.key) == ("a.yaml", line, "")
    assert finding.found.startswith(found)
    assert finding.expected


def test_the_largest_file_allowed_is_read() -> None:
    text = "a: " + "x" * (MAX_BYTES - 4) + "\n"
    assert len(text) == MAX_BYTES
    assert len(data(text)["a"]) == MAX_BYTES - 4


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert data("\ufeffa: 1\n") == {"a": 1}


# ---------------------------------------------------------------- depth


def nested_mappings(levels: int) -> str:
    return "".join(f"{' ' * level}a:\n" for level in range(levels))


def lists_under_keys(levels: int) -> str:
    """Two levels a column, the most that YAML's indentation allows."""
    return "".join(f"{' ' * level}a:\n{' ' * level}-\n" for level in range(levels))


def test_as_many_levels_as_allowed_are_read() -> None:
    value = data("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1) + "\n")["a"]
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == MAX_DEPTH - 2  # besides the mapping at the top and the innermost list, which is empty


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        "a:\n  " + "- " * MAX_DEPTH + "x",
        nested_mappings(MAX_DEPTH + 1),
        lists_under_keys(MAX_DEPTH),
    ],
)
def test_one_level_too_many_is_refused_with_its_place(text: str) -> None:
    (finding,) = parsed(text + "\n").findings
    assert finding.found == f"more than {MAX_DEPTH} levels"
    assert finding.line > 0


BOMBS = {
    "brackets": "[" * MAX_BYTES,
    "braces": "{" * MAX_BYTES,
    "flow mappings": ("{a: " * MAX_BYTES)[:MAX_BYTES],
    "closed brackets": "[" * (MAX_BYTES // 2) + "]" * (MAX_BYTES // 2),
    "dashes": "- " * (MAX_BYTES // 2),
    "question marks": "? " * (MAX_BYTES // 2),
    "dashes and question marks": "? - " * (MAX_BYTES // 4),
    "dashes on short lines": "a:\n" + "".join(f"{' ' * n}{'- ' * (99 - n // 2)}\n" for n in range(2, 198, 2)),
    "mappings as deep as the file allows": nested_mappings(350),
    "lists under keys as deep as the file allows": lists_under_keys(250),
    # The deepest that is composed without a look at its events first: every column and every bracket used up.
    "all columns and all brackets": (
        lists_under_keys(198)
        + f"{' ' * 198}[\n"
        + f"{' ' * 190}[[[[[[[[[\n" * 11
        + f"{' ' * 190}]]]]]]]]]\n" * 11
        + f"{' ' * 198}]\n"
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_nesting_kills_the_process_or_keeps_it_busy(name: str) -> None:
    # In a process of its own, on a thread with the small stack that some systems give one: libyaml's
    # composer recurses in C, and a stack that overflows there ends the process without an exception.
    program = (
        "import resource, sys, threading\n"
        "from lean_ops.config.strict_yaml import parse\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (2, 2))\n"
        "content = sys.stdin.buffer.read()\n"
        "result = []\n"
        "threading.stack_size(512 * 1024)\n"
        "thread = threading.Thread(target=lambda: result.append(parse('a.yaml', content)))\n"
        "thread.start(); thread.join()\n"
        "print(result[0].findings[0].found)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        input=BOMBS[name].encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode() == f"more than {MAX_DEPTH} levels\n"


# ---------------------------------------------------------------- lines


LINES = parsed("a: 1\nb:\n  c:\n    - x\n    - y\n  d: {e: 1}\n").document


@pytest.mark.parametrize(
    ("location", "line"),
    [
        ((), 1),
        (("a",), 1),
        (("b",), 2),
        (("b", "c"), 3),
        (("b", "c", 1), 5),
        (("b", "d", "e"), 6),
        (("b", "c", 7), 3),  # not there: the nearest that is
        (("b", "missing"), 2),
        (("missing", "more"), 1),
        (("a", "below", "a", "scalar"), 1),
    ],
)
def test_a_document_knows_the_line_of_every_key(location: tuple[str | int, ...], line: int) -> None:
    assert LINES is not None
    assert LINES.line(location) == line


# ---------------------------------------------------------------- anything at all


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, min_size=1, max_size=4))
def test_plain_data_written_by_a_yaml_writer_is_read_back_the_same(value: dict[str, Any]) -> None:
    class NoAliases(yaml.CSafeDumper):
        def ignore_aliases(self, _data: object) -> bool:
            return True

    text = yaml.dump(value, Dumper=NoAliases, allow_unicode=True)
    result = parsed(text)
    assert result.findings == ()
    assert result.document is not None
    assert result.document.data == value


@given(st.binary(max_size=200) | st.text(alphabet="ab:-?[]{}&*!|>'\"%#\n 1.~<=", max_size=60).map(str.encode))
def test_no_content_at_all_raises(content: bytes) -> None:
    result = parse("a.yaml", content)
    assert result.document is not None or result.findings
