"""Runs of a topic's DAG: what is skipped and why, what fails and who hears of it, and that `settle` always runs."""

from __future__ import annotations

import pytest

from lean_ops.aws.outbox import Outbox
from lean_ops.ops_tables import JOB_RUN_HISTORY
from tests.dags.world import World

pytestmark = pytest.mark.usefixtures("airflow_database")


def test_without_a_schema_a_run_skips_everything_and_says_so_and_the_data_waits(world: World) -> None:
    world.land()
    run = world.run()
    skipped = ("schema_gate", "ensure_tables", "standardize", "curated_gate", "curate")
    assert run.states == dict.fromkeys(skipped, "skipped") | {"settle": "success"}
    assert run.state == "success"
    assert "no schema" in run.xcom("schema_gate", "gate")["reason"]
    [record] = Outbox(world.client("dynamodb"), world.runtime.names).waiting(JOB_RUN_HISTORY.name)
    assert (record.values["status"], record.values["hop"]) == ("skipped", "run")
    assert "no schema" in record.values["result"]
    [lag] = world.metrics()
    assert lag["MetricName"] == "Lag"
    assert run.xcom("settle", "return_value")["lag_seconds"] > 0
    assert world.alerts() == []


def test_a_failure_ends_the_run_as_failed_is_told_once_and_settled(world: World) -> None:
    world.land()
    world.activate(with_file=False)
    run = world.run()
    assert run.state == "failed"
    assert run.states == {
        "schema_gate": "success",
        "ensure_tables": "failed",
        **dict.fromkeys(("standardize", "curated_gate", "curate"), "upstream_failed"),
        "settle": "success",
    }
    assert run.xcom("settle", "return_value")["status"] == "failed"
    [alert] = world.alerts()
    for word in ("orders", "ensure_tables", run.dag_run.run_id, "Log:", "lean-ops"):
        assert word in alert
