"""What a topic's DAG takes from its file and its environment."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from dags.factory.engines import ENGINES
from dags.factory.topic_dag import build_topic_dag, pool, timetable
from lean_ops.config.repository import Repository, load_environment
from lean_ops.config.topics import EngineSpec, ScheduleSpec, TopicSpec
from tests.repositories import ROOT

LOCAL = load_environment(Repository(ROOT), "local")
PROD = load_environment(Repository(ROOT), "prod")


def spec(name: str = "orders", **more: Any) -> TopicSpec:
    return TopicSpec(topic=name, owner="sales", description="Orders.", **more)


def test_tasks_stand_in_one_line_and_settle_does_not_decide_about_the_run() -> None:
    dag = build_topic_dag(spec(), LOCAL)
    line = [task.task_id for task in dag.topological_sort()]
    assert line == ["schema_gate", "ensure_tables", "standardize", "curated_gate", "curate", "settle"]
    assert all(dag.get_task(a).downstream_task_ids == {b} for a, b in pairwise(line))
    settle = dag.get_task("settle")
    assert settle.is_teardown
    assert not settle.on_failure_fail_dagrun


def test_one_run_at_a_time_and_no_past_ones() -> None:
    dag = build_topic_dag(spec(tags=("finance",)), LOCAL)
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert dag.tags == {"topic", "local", "finance"}
    assert {task.owner for task in dag.tasks} == {"sales"}
    assert all(task.execution_timeout for task in dag.tasks)
    assert all(task.retries >= 1 and task.retry_exponential_backoff for task in dag.tasks)


@pytest.mark.parametrize("kind", list(ENGINES))
def test_the_topic_names_its_engine_and_the_engine_has_a_pool(kind: Any) -> None:
    dag = build_topic_dag(spec(engine=EngineSpec(kind=kind)), PROD)
    for hop in ("standardize", "curate"):
        task = dag.get_task(hop)
        assert type(task) is ENGINES[kind]
        assert task.pool == pool(kind)


def test_a_topic_without_an_engine_takes_its_environments() -> None:
    assert type(build_topic_dag(spec(), PROD).get_task("curate")) is ENGINES[PROD.engine.kind]


def test_minutes_are_spread_over_the_topics_and_never_move() -> None:
    firsts = Counter(str(timetable(spec(f"topic_{n}")).expression).split(",")[0] for n in range(700))  # type: ignore[union-attr]
    assert set(firsts) == {str(minute) for minute in range(15)}
    assert max(firsts.values()) < 2 * 700 / 15
    assert timetable(spec("orders")) == timetable(spec("orders"))


@pytest.mark.parametrize(("every", "times"), [(5, 12), (15, 4), (60, 1)])
def test_a_topic_runs_as_often_as_its_file_says(every: Any, times: int) -> None:
    found = timetable(spec(schedule=ScheduleSpec(every_minutes=every)))
    assert found is not None
    minutes = [int(minute) for minute in found.expression.split(" ")[0].split(",")]
    assert len(minutes) == times
    assert {after - before for before, after in pairwise(minutes)} <= {every}


def test_a_topic_that_is_not_scheduled_can_still_be_run() -> None:
    assert build_topic_dag(spec(schedule=ScheduleSpec(enabled=False)), LOCAL).schedule is None


def test_parameters_are_typed() -> None:
    params = deepcopy(build_topic_dag(spec(), LOCAL).params)
    params["until_snapshot"] = 7
    params.validate()
    with pytest.raises(ParamValidationError, match="'raw' is not one of"):
        params["hop"] = "raw"


def test_the_documentation_shows_keys_contract_tables_and_commands() -> None:
    text = build_topic_dag(spec(keys={"idempotency_key": "order.id"}), PROD).doc_md
    assert text is not None
    for word in ("order.id", "schemas/orders/schema.json", "iceberg_curated_db.orders", "lean-ops verify"):
        assert word in text
