"""`lean-ops doctor`: one line a check, what to do about each that failed, and the pass count last."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.command_line import Answer, run
from tests.repositories import ROOT, repository, topic

CHECKS = ["python", "java", "jars", "ports", "disk", "files", "aws"]


def check(answer: Answer, name: str) -> dict[str, object]:
    (found,) = [check for check in answer.data["checks"] if check["name"] == name]
    return dict(found)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the jar lock of this one, and nothing in its cache."""
    root = repository(tmp_path / "clone", {"topics/orders.yaml": topic("orders")}).root
    shutil.copytree(ROOT / "environments", root / "environments", dirs_exist_ok=True)
    (root / "locks").mkdir()
    shutil.copy(ROOT / "locks/jars.txt", root / "locks")
    return root


def fake_java(folder: Path, version: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_every_check_is_a_line_and_the_count_comes_last(clone: Path) -> None:
    lines = run("doctor", cwd=clone, LEAN_OPS_CACHE=str(clone / "cache")).out.splitlines()
    verdicts = {line.split()[1]: line.split()[0] for line in lines[:-1] if not line.startswith(" ")}
    assert list(verdicts) == CHECKS
    assert verdicts["jars"] == "FAIL"
    passed = sum(verdict == "ok" for verdict in verdicts.values())
    assert lines[-1] == f"doctor: {passed} passed, {len(CHECKS) - passed} failed"


def test_a_failed_check_names_what_is_wrong_and_what_to_do(clone: Path) -> None:
    answer = run("doctor", "--json", cwd=clone, LEAN_OPS_CACHE=str(clone / "cache"))
    jars = check(answer, "jars")
    assert answer.code == 1
    assert jars["passed"] is False
    assert "iceberg" in str(jars["detail"])
    assert jars["next_step"] == "make setup"


def test_this_python_passes() -> None:
    answer = run("doctor", "--json")
    assert check(answer, "python")["passed"] is True
    assert check(answer, "python")["detail"] == ".".join(map(str, sys.version_info[:3]))
    assert answer.data["total"] == len(CHECKS)


@pytest.mark.parametrize(
    ("version", "passed"),
    [("17.0.9", True), ("21.0.1", True), ("1.8.0_392", False), ("25", False)],
)
def test_java_17_and_21_are_the_ones_that_do(tmp_path: Path, version: str, passed: bool) -> None:
    java = check(run("doctor", "--json", JAVA_HOME=fake_java(tmp_path, version)), "java")
    assert java["passed"] is passed


def test_a_java_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    nowhere = check(run("doctor", "--json", JAVA_HOME=str(tmp_path)), "java")
    assert nowhere["passed"] is False
    assert nowhere["detail"] == f"{tmp_path}/bin/java does not run"
    none = check(run("doctor", "--json", JAVA_HOME="", PATH=str(tmp_path)), "java")
    assert none["detail"] == "no java on the PATH"
    assert "JAVA_HOME" in str(none["next_step"])


def test_faulty_files_are_counted_and_lead_to_the_command_that_names_them(clone: Path) -> None:
    repository(clone, {"topics/bad.yaml": "a: 1\n", "environments/dev.yaml": "b: 1\n"})
    files = check(run("doctor", "--json", cwd=clone), "files")
    assert files["passed"] is False
    assert str(files["detail"]).endswith(" findings")
    assert files["next_step"] == "lean-ops topics validate"


def test_an_emulated_environment_needs_no_aws(clone: Path) -> None:
    aws = check(run("doctor", "--json", cwd=clone), "aws")
    assert aws["passed"] is True
    assert "emulated" in str(aws["detail"])


def test_an_unknown_environment_is_a_failed_check_with_the_nearest_name(clone: Path) -> None:
    answer = run("doctor", "--json", "--env", "prd", cwd=clone)
    aws = check(answer, "aws")
    assert answer.code == 1
    assert "did you mean 'prod'?" in str(aws["detail"])


def test_the_environment_may_come_from_a_variable(clone: Path) -> None:
    aws = check(run("doctor", "--json", cwd=clone, LEAN_OPS_ENV="nonesuch"), "aws")
    assert "nonesuch" in str(aws["detail"])
