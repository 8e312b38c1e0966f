"""700 topics as DAGs, against dag-factory on as many DAGs with as many tasks, in one process and in turns.

dag-factory's DAGs say as much as ours (schedule, owner, retries, text, parameters), but their tasks are Airflow's
empty operator, the cheapest there is. The best round of each counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.bench_validate_topics import FILES, repository
from tests.repositories import ROOT

TIMES = 4.0
ONE_SECONDS = 0.15
LARGEST = 8_000
TASKS = ("schema_gate", "ensure_tables", "standardize", "curated_gate", "curate", "settle")

DAG = """\
topic_{number:03d}:
  default_args:
    owner: team_{team}
    start_date: 2026-01-01
    retries: 3
    retry_delay_sec: 30
  schedule: "{minute} * * * *"
  catchup: false
  max_active_runs: 1
  description: Messages number {number} of the many that this company sends.
  tags: [finance, tier{tier}]
  doc_md: |
    Messages number {number} of the many that this company sends.

    | layer | table |
    |---|---|
    | RAW | `iceberg_raw_db.topic_{number:03d}_staging` |
    | Curated | `iceberg_curated_db.topic_{number:03d}` |
  params:
    force: {{__type__: airflow.sdk.Param, default: false, type: boolean}}
    hop: {{__type__: airflow.sdk.Param, default: all, enum: [all, standardize, curate]}}
    until_snapshot: {{__type__: airflow.sdk.Param, default: null, type: ["null", "integer"]}}
  tasks:
{tasks}"""


def dag_factory_files(folder: Path) -> Path:
    """One file per DAG, as ours."""
    folder.mkdir()
    operator = "operator: airflow.providers.standard.operators.empty.EmptyOperator"
    tasks = "".join(
        f"    {task}:\n      {operator}\n" + (f"      dependencies: [{TASKS[index - 1]}]\n" if index else "")
        for index, task in enumerate(TASKS)
    )
    for number in range(FILES):
        facts = {"team": number % 9, "tier": number % 3, "minute": number % 15}
        (folder / f"topic_{number:03d}.yaml").write_text(DAG.format(number=number, tasks=tasks, **facts))
    return folder


def measured(root: Path, yaml_folder: Path, seed: int) -> dict[str, Any]:
    variables = {
        "AIRFLOW_HOME": str(root / "airflow"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "DO_NOT_TRACK": "1",
        "LEAN_OPS_ENV": "prod",
        "LEAN_OPS_ROOT": str(root),
        "PYTHONHASHSEED": str(seed),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dags", str(yaml_folder)],
        env=os.environ | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_700_topics_are_parsed_four_times_faster_than_by_dag_factory_and_stay_small(tmp_path: Path) -> None:
    repository(tmp_path)
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    yaml_folder = dag_factory_files(tmp_path / "dag_factory")
    first, second = (measured(tmp_path, yaml_folder, seed) for seed in (1, 2))
    ratio = first["theirs"] / first["ours"]
    print(
        f"\n{first['dags']} DAGs with {first['tasks']} tasks: {first['ours']:.2f} s, "
        f"dag-factory {first['theirs']:.2f} s: {ratio:.1f} times (at least {TIMES:g}); "
        f"one DAG by its parsing context {first['one'] * 1000:.0f} ms (limit {ONE_SECONDS * 1000:.0f}); "
        f"largest stored DAG {first['largest']} bytes (limit {LARGEST})"
    )
    assert first["dags"] == FILES
    assert first["digest"] == second["digest"], "another parse would store new versions"
    assert ratio >= TIMES
    assert first["one"] < ONE_SECONDS
    assert first["largest"] <= LARGEST
