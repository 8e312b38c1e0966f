"""700 topics are due at once: how long one scheduler takes, with our settings and with Airflow's own.

The DAGs have as many tasks in a row as a topic's, but empty ones, which the scheduler ends by itself: measured is what
the scheduler can decide, not what workers can do. Spread over fifteen minutes, as topics are, it has more time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from benchmarks.bench_validate_topics import FILES
from local import postgres
from local.airflow import LocalAirflow
from local.children import Child, ChildSpec
from local.supervisor import choose_ports
from tests.repositories import ROOT

LIMIT_SECONDS = 450.0  # half of the interval at which topics are due
AIRFLOWS_OWN = {
    "AIRFLOW__SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE": "20",
    "AIRFLOW__SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP": "10",
}

LOADER = f"""\
from datetime import UTC, datetime
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronDataIntervalTimetable, chain

daily = CronDataIntervalTimetable("0 0 * * *", timezone="UTC")
for number in range({FILES}):
    name = f"topic_{{number:03d}}"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with DAG(name, schedule=daily, start_date=start, catchup=False, is_paused_upon_creation=False) as dag:
        chain(*(EmptyOperator(task_id=f"task_{{each}}") for each in range(6)))
    globals()[name] = dag
"""


@contextmanager
def child(spec: ChildSpec, variables: Mapping[str, str], logs: Path) -> Iterator[Child]:
    started = Child(spec, variables, logs)
    try:
        started.await_ready(lambda: False)
        yield started
    finally:
        started.stop()


def ended(home: Path) -> int:
    connection = psycopg2.connect(host=str(postgres.folder(home)), user="airflow", dbname="postgres")
    try:
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from dag_run where state = 'success'")
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


def cycle(home: Path, settings: Mapping[str, str], patience: float) -> tuple[float, int]:
    """Seconds until all runs have ended, or until patience is over; and how many have."""
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "topics.py").write_text(LOADER)
    airflow = LocalAirflow(home, ROOT, "local", choose_ports((), ("airflow",))["airflow"])
    variables: dict[str, Any] = os.environ | airflow.variables() | settings
    variables |= {"AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"), "PYTHONPATH": str(ROOT)}
    database, setup, *_ = airflow.children()
    try:
        with child(database, variables, home):
            with child(setup, variables, home):
                pass
            reserialize = [sys.executable, "-m", "airflow", "dags", "reserialize"]
            subprocess.run(reserialize, env=variables, check=True, capture_output=True)
            with child(airflow.scheduler(), variables, home):
                began = time.monotonic()
                while (done := ended(home)) < FILES and time.monotonic() - began < patience:
                    time.sleep(0.5)
                return time.monotonic() - began, done
    finally:
        shutil.rmtree(postgres.folder(home), ignore_errors=True)


@pytest.mark.timeout(1800)
def test_700_runs_are_scheduled_in_half_of_their_interval(tmp_path: Path) -> None:
    seconds, done = cycle(tmp_path / "ours", {}, LIMIT_SECONDS)
    print(f"\n{done} of {FILES} runs of 6 empty tasks in {seconds:.0f} s (limit {LIMIT_SECONDS:.0f})", end="")
    _, others = cycle(tmp_path / "defaults", AIRFLOWS_OWN, seconds)
    print(f"; with Airflow's own settings {others} of them in the same time")
    assert done == FILES
