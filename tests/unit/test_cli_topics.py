"""`lean-ops topics`: what it lists, what it finds, what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lean_ops.config.strict_yaml import MAX_BYTES, MAX_DEPTH
from tests.command_line import call, run
from tests.repositories import ROOT, column, contract, environment, repository, topic

# One fault a file, each of another kind, and what is said about it: line, key, found, expected, nearest.
PLANTED: dict[str, tuple[str | bytes, tuple[int, str, str, str, str]]] = {
    "topics/_defaults.yaml": (
        "quality:\n  error_rate: high\n",
        (2, "quality.error_rate", "'high'", "a number", ""),
    ),
    "topics/Bad-Name.yaml": (
        topic("Bad-Name"),
        (
            1,
            "topic",
            "'Bad-Name'",
            (
                "1 to 48 lower-case letters, digits and underscores, a letter first "
                "(legal for Glue, SQS and Iceberg at once)"
            ),
            "bad_name",
        ),
    ),
    "topics/alias.yaml": (
        topic("alias", "tags: &t [a]\ntotals: *t\n"),
        (5, "totals", "an alias (*name)", "the value written out: no aliases", ""),
    ),
    "topics/broken.yaml": (
        topic("broken", "tags: [a\n"),
        (5, "", "broken YAML (did not find expected ',' or ']')", "valid YAML", ""),
    ),
    "topics/deep.yaml": (
        topic("deep", f"tags: {'[' * 200}\n"),
        (4, "", f"more than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels", ""),
    ),
    "topics/empty.yaml": (b"", (1, "", "an empty file", "lines of key: value", "")),
    "topics/ending.yml": (topic("ending"), (0, "", "the ending .yml", "a file that ends in .yaml", "")),
    "topics/enum.yaml": (
        topic("enum", "engine:\n  kind: gleu\n"),
        (5, "engine.kind", "'gleu'", "'local', 'glue' or 'emr_serverless'", "glue"),
    ),
    "topics/latin.yaml": (
        topic("latin").encode() + b"# \xe4\n",
        (0, "", f"a byte that is not UTF-8 at offset {len(topic('latin')) + 2}", "UTF-8 text", ""),
    ),
    "topics/missing.yaml": (
        "topic: missing\ndescription: d\n",
        (1, "owner", "nothing", "a value: this key is required", ""),
    ),
    "topics/misnamed.yaml": (
        topic("other"),
        (1, "topic", "'other'", "'misnamed', the file's own name", ""),
    ),
    "topics/oversized.yaml": (
        topic("oversized", "#" * MAX_BYTES),
        (0, "", f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES} bytes", ""),
    ),
    "topics/rate.yaml": (
        topic("rate", "quality:\n  min_records: 5\n  error_rate: 5\n"),
        (6, "quality.error_rate", "5", "a number of at most 1", ""),
    ),
    "topics/repeated.yaml": (
        topic("repeated", "owner: someone else\n"),
        (4, "owner", "the key a second time", "each key once", ""),
    ),
    "topics/tagged.yaml": (
        topic("tagged", "lane: !!python/name:os.system x\n"),
        (4, "lane", "the tag '!!python/name:os.system'", "a plain value without a tag", ""),
    ),
    "topics/unknown.yaml": (
        topic("unknown", "drift:\n  max_colums: 9\n"),
        (5, "drift.max_colums", "an unknown key", "new_column, max_columns, removed_after", "max_columns"),
    ),
    "topics/wrongtype.yaml": (
        topic("wrongtype", "schedule:\n  enabled: yes\n"),
        (5, "schedule.enabled", "'yes'", "true or false", ""),
    ),
    "environments/dev.yaml": (
        environment("dev").replace("region", "regoin"),
        (1, "region", "nothing", "a value: this key is required", ""),
    ),
    "schemas/sound/schema.json": (
        contract(column("a", "strng"), table_name="sound"),
        (
            0,
            "/payload_columns/0/type",
            "'strng'",
            "one of string, int, bigint, double, boolean, decimal(p,s), date, timestamp",
            "string",
        ),
    ),
}
# The misspelled key of the environment is the other half of the one that is missing.
UNKNOWN_REGION = (
    3,
    "regoin",
    "an unknown key",
    "name, account, region, name_prefix, buckets, catalog, engine, sizes, alerts, mwaa, pii_key_id",
    "region",
)


def planted(root: Path) -> None:
    repository(root, {file: content for file, (content, _) in PLANTED.items()})
    repository(root, {"topics/sound.yaml": topic("sound")})


def expected() -> list[tuple[object, ...]]:
    found = [(file, *fault) for file, (_, fault) in PLANTED.items()]
    return sorted([*found, ("environments/dev.yaml", *UNKNOWN_REGION)])


def test_one_run_names_every_planted_fault_exactly_once(tmp_path: Path) -> None:
    planted(tmp_path)
    answer = run("topics", "validate", cwd=tmp_path)
    lines = []
    for file, line, key, found, wanted, nearest in expected():
        place = f"{file}:{line}" if line else file
        hint = f" Did you mean '{nearest}'?" if nearest else ""
        lines.append(f"{place}: {key or '(whole file)'}: found {found}; expected {wanted}.{hint}")
    assert answer.out.splitlines() == lines
    assert answer.err == f"0 topics fine, {len(lines)} findings\n"
    assert answer.code == 1


def test_the_same_run_as_json_has_every_part_of_every_finding(tmp_path: Path) -> None:
    planted(tmp_path)
    answer = run("topics", "validate", "--json", "--root", str(tmp_path))
    keys = ("file", "line", "key", "found", "expected", "nearest")
    assert answer.data["topics"] == 0
    assert [tuple(finding[key] for key in keys) for finding in answer.data["findings"]] == expected()
    assert answer.code == 1


def test_the_shipped_repository_is_sound() -> None:
    answer = run("topics", "validate")
    assert (answer.code, answer.out, answer.err) == (0, "", "3 topics fine, 0 findings\n")


def test_a_repository_without_topics_is_sound_and_says_what_comes_next(tmp_path: Path) -> None:
    repository(tmp_path)
    assert call("topics", "validate", "--root", tmp_path).code == 0
    answer = call("topics", "list", "--root", tmp_path)
    assert (answer.code, answer.out) == (0, "")
    assert "lean-ops topics new NAME" in answer.err
    assert call("topics", "list", "--root", tmp_path, "--json").data == []


# ---------------------------------------------------------------- list


def test_a_list_shows_each_topic_and_what_it_makes() -> None:
    rows = call("topics", "list", "--root", ROOT, "--json").data
    assert [row["topic"] for row in rows] == ["events", "orders", "payments"]
    assert rows[0] == {
        "topic": "events",
        "owner": "platform",
        "every": "15 min",
        "contract": "yes",
        "raw": "iceberg_raw_db.events_staging",
        "standardized": "iceberg_standardized_db.events",
        "curated": "iceberg_curated_db.events",
    }


def test_a_list_shows_the_sound_topics_and_fails_for_the_others(tmp_path: Path) -> None:
    files = {"topics/orders.yaml": topic("orders", "schedule: {enabled: false}\n"), "topics/bad.yaml": "a: 1"}
    repository(tmp_path, files)
    answer = call("topics", "list", "--root", tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[1].split() == [
        "orders",
        "platform",
        "off",
        "no",
        "iceberg_raw_db.orders_staging",
    ]
    assert "topics/bad.yaml:1: a: found an unknown key" in answer.err


def test_text_of_a_topic_never_steers_a_terminal(tmp_path: Path) -> None:
    text = 'topic: orders\nowner: "\\e[31mred [bold]markup[/bold]"\ndescription: d\n'
    repository(tmp_path, {"topics/orders.yaml": text})
    answer = call("topics", "list", "--root", tmp_path)
    assert r"\x1b[31mred [bold]markup[/bold]" in answer.out
    assert "\x1b" not in answer.out


# ---------------------------------------------------------------- new


def test_a_new_topic_is_two_files_and_sound_at_once(tmp_path: Path) -> None:
    repository(tmp_path)
    answer = run("topics", "new", "shipments", cwd=tmp_path)
    assert answer.code == 0
    assert answer.out.splitlines() == ["topics/shipments.yaml", "schemas/shipments/schema.json"]
    assert answer.err == "next: edit both files, then lean-ops topics validate\n"
    checked = call("topics", "validate", "--root", tmp_path)
    assert (checked.code, checked.err) == (0, "1 topic fine, 0 findings\n")
    assert call("schema", "validate", "shipments", "--root", tmp_path).code == 0


@pytest.mark.parametrize(
    "text",
    ['He said "no"', "a: b # c", "back\\slash", "two\nlines", "tab\tand \x07 bell", "{braces} %s {0}", "ünïcode 😀",
     "- dash", "true", "*alias", "\u2028 \x85 \ufeff", " padded "],
)  # fmt: skip
def test_whatever_the_owner_is_called_it_is_read_back_the_same(tmp_path: Path, text: str) -> None:
    repository(tmp_path)
    assert call("topics", "new", "a", "--owner", text, "--description", text, "--root", tmp_path).code == 0
    (row,) = call("topics", "list", "--root", tmp_path, "--json").data
    assert row["owner"] == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("Order-Items",),
            ("'Order-Items' cannot be a topic name: expected 1 to 48", "topics new order_items"),
        ),
        (("errors",), ("'errors' cannot be a topic name: expected a name other than", "choose another name")),
        (("orders_staging",), ("does not end in _latest or _staging", "choose another name")),
        (("../evil",), ("'../evil' cannot be a topic name", "lean-ops topics new evil")),
        (
            ("fine", "--owner", ""),
            ("--owner: found ''; expected text that is not blank", "give another --owner"),
        ),
        (("fine", "--description", "x" * 2001), ("--description: found 'xxx", "give another --description")),
    ],
)
def test_what_cannot_be_a_topic_is_not_written(
    tmp_path: Path, arguments: tuple[str, ...], said: tuple[str, str]
) -> None:
    repository(tmp_path)
    answer = call("topics", "new", *arguments, "--root", tmp_path)
    assert answer.code == 2
    assert all(part in answer.err for part in said)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("existing", ["topics/orders.yaml", "schemas/orders/schema.json"])
def test_nothing_is_overwritten_and_nothing_is_half_written(tmp_path: Path, existing: str) -> None:
    repository(tmp_path, {existing: "mine"})
    answer = call("topics", "new", "orders", "--root", tmp_path)
    assert answer.code == 1
    assert f"{existing} already there: nothing was written" in answer.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / existing]
    assert (tmp_path / existing).read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    repository(tmp_path, {"schemas": "a file where a folder should be"})
    answer = call("topics", "new", "orders", "--root", tmp_path)
    assert answer.code == 1
    assert answer.err.startswith("lean-ops: ")
    assert "schemas" in answer.err
    assert not (tmp_path / "topics" / "orders.yaml").exists()
