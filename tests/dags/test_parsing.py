"""Parsing is pure: the same DAGs whatever the process, one topic's when one is asked for, and no topic for another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lean_ops.naming import dag_id
from tests.dags.parsing import parsed
from tests.repositories import ROOT, topic

GOLDEN = Path(__file__).parent / "golden" / "topic__orders.json"
TOPICS = [dag_id(path.stem) for path in sorted((ROOT / "topics").glob("[!_]*.yaml"))]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped topics, and one more whose file is broken."""
    root = tmp_path_factory.mktemp("repository")
    for folder in ("topics", "environments"):
        shutil.copytree(ROOT / folder, root / folder)
    (root / "topics" / "broken.yaml").write_text(topic("broken", "quality:\n  eror_rate: 0.5\n"))
    return root


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    return parsed(PYTHONHASHSEED="1")


def test_the_dag_of_a_topic_is_what_was_reviewed(shipped: dict[str, Any]) -> None:
    assert shipped["errors"] == {}
    text = json.dumps(shipped["dags"]["topic__orders"], indent=1, sort_keys=True) + "\n"
    assert text == GOLDEN.read_text(), f"if this is meant, write it to {GOLDEN.relative_to(ROOT)}:\n{text}"


def test_two_processes_with_other_hash_seeds_build_the_same_dags(shipped: dict[str, Any]) -> None:
    assert set(TOPICS) <= set(shipped["dags"])
    assert parsed(PYTHONHASHSEED="2") == shipped


def test_a_stored_dag_is_small(shipped: dict[str, Any]) -> None:
    assert max(len(json.dumps(dag)) for name, dag in shipped["dags"].items() if name in TOPICS) <= 8_000


def test_a_broken_topic_is_an_import_error_with_file_line_and_fix_and_all_others_load(
    repository: Path,
) -> None:
    nowhere = {"http_proxy": "http://127.0.0.1:1", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    found = parsed(repository, LEAN_OPS_HOME="/nonexistent/home", **nowhere)
    assert set(TOPICS) <= set(found["dags"])
    assert dag_id("broken") not in found["dags"]
    assert list(found["errors"]) == ["broken_topics.py"]
    error = found["errors"]["broken_topics.py"]
    assert "topics/broken.yaml:5" in error
    assert "Did you mean 'error_rate'?" in error


def test_the_start_of_a_task_parses_its_own_topic_only(repository: Path) -> None:
    context = {
        "_AIRFLOW_PARSING_CONTEXT_DAG_ID": "topic__orders",
        "_AIRFLOW_PARSING_CONTEXT_TASK_ID": "settle",
    }
    found = parsed(repository, **context)
    assert [name for name in found["dags"] if name.startswith("topic__")] == ["topic__orders"]
    assert found["errors"] == {}
