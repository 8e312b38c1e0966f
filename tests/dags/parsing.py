"""Parses the DAG folder as the DAG processor does, in a process of its own, and prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.repositories import ROOT


def parsed(root: Path = ROOT, **variables: str) -> dict[str, Any]:
    """The DAGs (without what depends on the machine) and the import errors by file, of a repository's topics."""
    named = {"LEAN_OPS_ROOT": str(root), "LEAN_OPS_ENV": "local", "PYTHONPATH": str(ROOT)}
    # A DAG that was run in this process has left its parsing context behind.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("_AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.dags.parsing"],
        env=inherited | named | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _serialized(dag: Any) -> dict[str, Any]:
    from airflow.serialization.serialized_objects import DagSerialization

    content: dict[str, Any] = DagSerialization.to_dict(dag)
    for name in ("fileloc", "relative_fileloc", "_processor_dags_folder"):
        content["dag"].pop(name, None)
    return content


def main() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags"), include_examples=False)
    errors = {Path(file).name: text for file, text in bag.import_errors.items()}
    dags = {dag_id: _serialized(dag) for dag_id, dag in sorted(bag.dags.items())}
    sys.stdout.write("\n" + json.dumps({"dags": dags, "errors": errors}) + "\n")


if __name__ == "__main__":
    main()
