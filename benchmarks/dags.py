"""Builds 700 DAGs in this process, ours and dag-factory's in turns, and prints what each cost as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOADER = Path(__file__).parents[1] / "dags" / "topics.py"
ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def ours() -> dict[str, Any]:
    """What the DAG processor does with our loader, once Airflow is imported."""
    found = runpy.run_path(str(LOADER))
    return {name: value for name, value in found.items() if name.startswith("topic__")}


def theirs(folder: Path) -> dict[str, Any]:
    from dagfactory import load_yaml_dags

    found: dict[str, Any] = {}
    load_yaml_dags(globals_dict=found, dags_folder=str(folder))
    return found


def fingerprint(dags: dict[str, Any]) -> tuple[str, int]:
    """What Airflow compares to tell a new version of a DAG from the stored one, and the largest DAG's bytes."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import DagSerialization

    stored = {name: DagSerialization.to_dict(dag) for name, dag in sorted(dags.items())}
    hashes = [SerializedDagModel.hash(dag) for dag in stored.values()]
    return hashlib.sha256("".join(hashes).encode()).hexdigest(), max(
        len(json.dumps(dag)) for dag in stored.values()
    )


def main(yaml_folder: Path) -> None:
    single = ours()
    tasks = sum(len(dag.tasks) for dag in single.values())
    other = theirs(yaml_folder)
    assert sum(len(dag.tasks) for dag in other.values()) == tasks
    rounds = [(seconds(ours), seconds(lambda: theirs(yaml_folder))) for _ in range(ROUNDS)]
    digest, largest = fingerprint(single)
    os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = "topic__topic_007"
    assert list(ours()) == ["topic__topic_007"]
    one = min(seconds(ours) for _ in range(ROUNDS))
    measured = {
        "dags": len(single),
        "tasks": tasks,
        "ours": min(pair[0] for pair in rounds),
        "theirs": min(pair[1] for pair in rounds),
        "one": one,
        "largest": largest,
        "digest": digest,
    }
    sys.stdout.write("\n" + json.dumps(measured) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
