"""`lean-ops schema`: contracts checked, compared, and kept in step with what editors read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import call, run
from tests.repositories import ROOT, column, contract, repository, topic


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A repository with two topics, a sound contract and one with two faults."""
    files = {
        "topics/orders.yaml": topic("orders"),
        "topics/events.yaml": topic("events"),
        "schemas/orders/schema.json": contract(column("a")),
        "schemas/events/schema.json": contract(column("a", "strng"), version="1", table_name="events"),
    }
    return repository(tmp_path, files).root


# ---------------------------------------------------------------- validate


def test_all_contracts_are_checked_at_once(here: Path) -> None:
    answer = call("schema", "validate", "--root", here)
    assert answer.code == 1
    assert [line.partition(": found")[0] for line in answer.out.splitlines()] == [
        "schemas/events/schema.json: /payload_columns/0/type",
        "schemas/events/schema.json: /version",
    ]
    assert answer.err == "1 contract fine, 2 findings\n"


def test_one_contract_is_checked_by_the_name_of_its_topic(here: Path) -> None:
    answer = call("schema", "validate", "orders", "--root", here)
    assert (answer.code, answer.out, answer.err) == (0, "", "1 contract fine, 0 findings\n")


def test_a_contract_anywhere_can_be_checked_against_a_topic(here: Path, tmp_path: Path) -> None:
    file = tmp_path / "next.json"
    file.write_text(contract(column("a"), table_name="order"))
    alone = call("schema", "validate", "--file", file, "--root", here)
    assert (alone.code, alone.out) == (0, "")
    answer = call("schema", "validate", "orders", "--file", file, "--root", here, "--json")
    assert answer.code == 1
    (finding,) = answer.data["findings"]
    assert (finding["file"], finding["key"]) == (str(file), "/table_name")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("order",), "no topic 'order': topics/order.yaml does not exist; did you mean 'orders'?"),
        (("--file", "nowhere.json"), "there is no file nowhere.json"),
        (("--file", "."), "there is no file ."),
    ],
)
def test_what_does_not_exist_is_a_usage_error_with_a_next_step(
    here: Path, arguments: tuple[str, ...], said: str
) -> None:
    answer = call("schema", "validate", *arguments, "--root", here)
    assert answer.code == 2
    assert answer.err.startswith(f"lean-ops: {said}\n  next: ")


def test_a_topic_without_a_contract_says_so(here: Path) -> None:
    (here / "schemas/orders/schema.json").unlink()
    answer = call("schema", "validate", "orders", "--root", here)
    assert answer.code == 2
    assert "schemas/orders/schema.json" in answer.err


# ---------------------------------------------------------------- diff


@pytest.fixture
def versions(tmp_path: Path) -> tuple[Path, Path]:
    """A contract, and a next version of it with a safe, a worrying and a breaking change."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(contract(column("a"), column("b", cde=True), column("c", "int")))
    new.write_text(contract(column("a", description="d"), column("b"), column("c", "string"), version="1.1"))
    return old, new


def test_a_diff_reads_as_a_list_of_changes_with_what_they_ask_for(versions: tuple[Path, Path]) -> None:
    answer = run("schema", "diff", *map(str, versions))
    assert answer.code == 1
    assert answer.err == ""
    assert answer.out.splitlines() == [
        "1.0 → 1.1: breaking",
        "  + safe      a: documented: description",
        "  ~ warning   b: requirement_relaxed: NULL becomes possible",
        "  ! breaking  c: type_changed: int → string",
        "              implies: rebuild Curated from Standardized: Iceberg cannot change this type in place",
        "refused: breaking changes need a new major version: at least 2.0, not 1.1",
    ]


def test_a_diff_is_data_on_request(versions: tuple[Path, Path]) -> None:
    answer = call("schema", "diff", *versions, "--json")
    assert answer.code == 1
    assert {key: value for key, value in answer.data.items() if key != "differences"} == {
        "old_version": "1.0",
        "new_version": "1.1",
        "impact": "breaking",
        "allowed": False,
        "version_fault": "breaking changes need a new major version: at least 2.0, not 1.1",
    }
    assert [difference["change"] for difference in answer.data["differences"]] == [
        "documented", "requirement_relaxed", "type_changed",
    ]  # fmt: skip


def test_a_breaking_change_with_a_new_major_version_is_admitted(versions: tuple[Path, Path]) -> None:
    old, new = versions
    new.write_text(new.read_text().replace('"1.1"', '"2.0"'))
    answer = call("schema", "diff", old, new)
    assert answer.code == 0
    assert "refused" not in answer.out


def test_a_contract_and_itself_have_no_differences(versions: tuple[Path, Path]) -> None:
    answer = call("schema", "diff", versions[0], versions[0])
    assert (answer.code, answer.out) == (0, "1.0 → 1.0: safe\n  no differences\n")


def test_paths_are_looked_up_in_the_root_when_one_is_named(here: Path) -> None:
    (here / "next.json").write_text(contract(column("a"), column("b"), version="1.1"))
    answer = call("schema", "diff", "schemas/orders/schema.json", "next.json", "--root", here)
    assert (answer.code, answer.out.splitlines()[0]) == (0, "1.0 → 1.1: safe")


def test_a_faulty_contract_is_not_compared_and_all_its_faults_are_named(here: Path) -> None:
    arguments = ("schema", "diff", "schemas/orders/schema.json", "schemas/events/schema.json", "--root", here)
    answer = call(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(
        "lean-ops: 2 findings:\nschemas/events/schema.json: /payload_columns/0/type: "
    )
    as_json = call(*arguments, "--json")
    assert [finding["key"] for finding in as_json.data["findings"]] == ["/payload_columns/0/type", "/version"]
    assert as_json.code == 1


def test_a_file_that_does_not_exist_cannot_be_compared(versions: tuple[Path, Path]) -> None:
    answer = call("schema", "diff", versions[0], "nowhere.json")
    assert answer.code == 2
    assert answer.err.startswith("lean-ops: there is no file nowhere.json\n  next: name a contract file")


# ---------------------------------------------------------------- editor-files


def test_editor_files_are_written_when_they_are_outdated_and_only_then(here: Path) -> None:
    check = call("schema", "editor-files", "--check", "--root", here)
    assert check.code == 1
    assert len(check.out.splitlines()) == 4
    assert not (here / "topics/_topic.schema.json").exists()

    assert call("schema", "editor-files", "--root", here).code == 0
    assert call("schema", "editor-files", "--check", "--root", here).code == 0
    assert call("schema", "editor-files", "--root", here, "--json").data == {"written": []}


def test_the_shipped_editor_files_are_up_to_date() -> None:
    assert call("schema", "editor-files", "--check", "--root", ROOT).code == 0


# ---------------------------------------------------------------- keys


def test_a_key_that_moves_is_a_breaking_difference(here: Path, tmp_path: Path) -> None:
    contracts = [here / "schemas/orders/schema.json"] * 2
    topics = [tmp_path / "before.yaml", tmp_path / "after.yaml"]
    for file, key in zip(topics, ("orderId", "order.id"), strict=True):
        file.write_text(topic("orders") + f"keys: {{idempotency_key: {key}}}\n")
    answer = call("schema", "diff", *contracts, "--old-topic", topics[0], "--new-topic", topics[1], "--json")
    assert answer.code == 1
    (difference,) = answer.data["differences"]
    assert (difference["change"], difference["impact"]) == ("key_changed", "breaking")
    assert difference["detail"] == "orderId → order.id"


def test_one_topic_file_alone_is_no_comparison(here: Path) -> None:
    contracts = [here / "schemas/orders/schema.json"] * 2
    assert call("schema", "diff", *contracts, "--old-topic", here / "topics/orders.yaml").code == 2
