"""What the machine lacks is said in one line, before anything starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lean_ops.errors import LeanOpsError
from local import prerequisites


def test_a_machine_that_has_everything_is_let_pass(tmp_path: Path) -> None:
    prerequisites.require(tmp_path / "home", spark=True)
    assert (tmp_path / "home").is_dir()


def test_a_full_disk_is_told_with_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(LeanOpsError, match=r"[0-9.]+ GB are free in .*, and the stack needs 1000000000"):
        prerequisites.require(tmp_path, spark=False, needed_gb=1e9)


def test_a_disk_that_fills_up_later_is_named_where_something_dies_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not prerequisites.full_disk(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
    assert f"the disk of {tmp_path} is full" in prerequisites.full_disk(tmp_path)


@pytest.mark.parametrize("variables", [{"PATH": ""}, {"PATH": "/usr/bin", "JAVA_HOME": "/nowhere"}])
def test_a_missing_java_is_told_only_where_spark_is_wanted(tmp_path: Path, variables: dict[str, str]) -> None:
    prerequisites.require(tmp_path, variables, spark=False)
    with pytest.raises(LeanOpsError, match="Java is missing"):
        prerequisites.require(tmp_path, variables, spark=True)
