"""A process finds itself: what its parent handed down is what it gets, or it is told what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lean_ops import runtime
from lean_ops.config.repository import Repository
from lean_ops.errors import LeanOpsError
from tests.repositories import ROOT, environment, repository


@pytest.mark.parametrize("name", ["local", "dev", "prod"])
def test_a_child_finds_itself_where_its_parent_is(name: str, tmp_path: Path) -> None:
    parent = runtime.from_repository(Repository(ROOT), name, {runtime.HOME_VARIABLE: str(tmp_path)})
    assert runtime.from_variables(parent.variables()) == parent
    assert parent.home == tmp_path


def test_reviewed_exceptions_reach_the_child(tmp_path: Path) -> None:
    text = environment("dev", "buckets: {lake: the-lake}\nmwaa: {environment_class: mw1.large}\n")
    parent = runtime.from_repository(repository(tmp_path, {"environments/dev.yaml": text}), "dev", {})
    child = runtime.from_variables(parent.variables())
    assert child.names.lake_bucket == "the-lake"
    assert child.environment == parent.environment


@pytest.mark.parametrize("home", [{}, {runtime.HOME_VARIABLE: ""}])
def test_home_is_a_folder_of_the_repository_unless_named(home: dict[str, str]) -> None:
    assert runtime.from_repository(Repository(ROOT), "local", home).home == ROOT / ".lean-ops"


def test_home_is_absolute_however_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = runtime.from_repository(Repository(ROOT), "local", {}).variables()
    monkeypatch.chdir(tmp_path)
    assert runtime.from_variables(variables | {runtime.HOME_VARIABLE: "here"}).home == tmp_path / "here"
    assert runtime.from_variables(variables | {runtime.HOME_VARIABLE: ""}).home == tmp_path / ".lean-ops"


def test_a_process_that_was_told_nothing_says_what_it_misses() -> None:
    with pytest.raises(LeanOpsError, match="LEAN_OPS_ENVIRONMENT is not set") as lost:
        runtime.from_variables({})
    assert lost.value.next_step


@pytest.mark.parametrize(
    ("text", "place"),
    [("", "all of it"), ("{", "all of it"), ("[]", "all of it"), ("{}", "name"), ('{"name": 5}', "name")],
)
def test_a_variable_that_holds_no_environment_is_refused(text: str, place: str) -> None:
    with pytest.raises(LeanOpsError, match=f"does not hold an environment: {place}: "):
        runtime.from_variables({runtime.ENVIRONMENT_VARIABLE: text})
