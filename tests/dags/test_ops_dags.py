"""The operators' DAGs: upkeep moves and tells what waits; a replay counts first, and wants a reason."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, ParamValidationError

from dags.factory import ops_tasks
from dags.factory.ops_dags import ops_dags
from lean_ops.aws import error_tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.outbox import Outbox
from lean_ops.batch.outbox import OpsEvent
from lean_ops.identity import Identity, to_micros
from lean_ops.ingestion.attempts import Attempt
from lean_ops.ops_tables import DRIFT_LOG, JOB_RUN_HISTORY
from tests.dags.world import World

NOW = datetime.now(UTC)
ASKED = {"topic": "orders", "reason": "the queue was full", "code": None, "since": None, "source": "dlq"}


def drift(column: str, age: timedelta) -> OpsEvent:
    values = {
        "event_id": f"drift/{column}",
        "topic_name": "orders",
        "detected_ts": NOW - age,
        "column_name": column,
        "action": "ADDED",
    }
    return OpsEvent(DRIFT_LOG.name, values)


def test_replays_want_a_topic_a_reason_and_a_decision_against_the_dry_run(world: World) -> None:
    dags = {dag.dag_id: dag for dag in ops_dags(world.runtime.environment)}
    scheduled = {name for name, dag in dags.items() if dag.schedule is not None}
    assert scheduled == {"ops__drift_report", "ops__flush", "ops__revalidate"}
    for name in ("ops__replay_dlq", "ops__replay_errors"):
        params = dags[name].params
        assert dags[name].schedule is None
        assert params["dry_run"] is True
        with pytest.raises(ParamValidationError):
            params["reason"] = "because"
        with pytest.raises(ParamValidationError):
            params.validate()


def test_what_waits_is_flushed_and_a_days_drift_is_told_once(world: World) -> None:
    outbox = Outbox(world.client("dynamodb"), world.runtime.names)
    outbox.add([drift("today", timedelta(hours=1)), drift("long_ago", timedelta(days=9))])
    assert ops_tasks.flush_outbox() == {DRIFT_LOG.name: 2}
    assert ops_tasks.flush_outbox() == {}
    assert ops_tasks.report_drift(NOW - timedelta(days=1), NOW) == [
        {"topic": "orders", "columns": {"ADDED": ["today"]}}
    ]
    [text] = world.alerts()
    assert "ADDED: today" in text
    assert "long_ago" not in text
    assert ops_tasks.report_drift(NOW - timedelta(days=5), NOW - timedelta(days=4)) == []
    assert world.alerts() == []


def test_a_dry_run_counts_and_sends_nothing_and_a_replay_sends(world: World) -> None:
    letter(world)
    assert ops_tasks.replay_letters(ASKED, dry_run=True)["counts"] == {"DELIVERY_FAILED": 1}
    with pytest.raises(AirflowSkipException, match="dry run: 1 records would be replayed"):
        ops_tasks.refuse_dry_run({"dry_run": True}, {"DELIVERY_FAILED": 1})
    assert waiting(world) == 0
    assert ops_tasks.replay_letters(ASKED, dry_run=False)["sent"] == 1
    assert waiting(world) == 1


def test_errors_are_counted_before_they_are_validated_again(world: World) -> None:
    assert ops_tasks.count_errors(ASKED | {"since": "24h"}) == {}
    chosen = ops_tasks.selection(ASKED | {"code": "CDE_MISSING", "since": "2026-11-18"})
    assert (chosen.error_code, chosen.since) == ("CDE_MISSING", datetime(2026, 11, 18, tzinfo=UTC))


def test_a_replay_is_kept_in_the_run_history_with_its_reason(world: World) -> None:
    ti = SimpleNamespace(dag_id="ops__replay_dlq", run_id="manual__1", try_number=1)
    run = SimpleNamespace(run_after=NOW, triggering_user_name="ada")
    ops_tasks.record({"ti": ti, "dag_run": run, "params": ASKED}, {"sent": 1})  # type: ignore[typeddict-item]
    [event] = Outbox(world.client("dynamodb"), world.runtime.names).waiting(JOB_RUN_HISTORY.name)
    assert (event.values["hop"], event.values["topic_name"]) == ("replay_dlq", "orders")
    told = json.loads(event.values["result"])
    assert (told["reason"], told["by"], told["done"]) == ("the queue was full", "ada", {"sent": 1})


@pytest.mark.parametrize(
    ("dry_run", "counts", "ends"),
    [(True, {"CDE_MISSING": 2}, "would be replayed"), (False, {}, "no batches")],
)
def test_spark_starts_for_no_dry_run_and_for_no_errors(
    world: World, dry_run: bool, counts: dict[str, int], ends: str
) -> None:
    dags = {dag.dag_id: dag for dag in ops_dags(world.runtime.environment)}
    replay = dags["ops__replay_errors"].get_task("replay")
    ti = SimpleNamespace(xcom_pull=lambda **_: counts)
    context: Any = {"ti": ti, "params": ASKED | {"dry_run": dry_run}}
    if dry_run:
        with pytest.raises(AirflowSkipException, match=ends):
            replay.execute(context)
    else:
        assert replay.execute(context)["batches"] == [], ends


def test_a_new_contract_has_its_errors_validated_once(world: World) -> None:
    assert ops_tasks.due_revalidations() == []
    world.activate()
    [due] = ops_tasks.due_revalidations()
    assert due["trigger_run_id"] == "revalidate__orders__1.0"
    replay = next(dag for dag in ops_dags(world.runtime.environment) if dag.dag_id == "ops__replay_errors")
    params = deepcopy(replay.params)
    params.update(due["conf"])
    params.validate()
    ops_tasks.revalidated(params)
    assert ops_tasks.due_revalidations() == []


def letter(world: World) -> None:
    """A dead letter of the topic."""
    catalog = open_catalog(world.runtime.environment, world.runtime.home)
    errors = error_tables.dlq_errors(catalog)
    ensure_table(catalog, errors.spec)
    published = datetime(2026, 11, 18, 10, tzinfo=UTC)
    body = {"message_id": "m1", "publish_time": published.isoformat(), "payload": {}}
    content = {"body": json.dumps(body), "receive_count": 5, "archive_key": "archive"}
    identity, now = Identity("orders", "m1", to_micros(published)), to_micros(NOW)
    errors.append([Attempt(identity, "dlq", "open", "DELIVERY_FAILED", "", "sqs-1", now, content)])


def waiting(world: World) -> int:
    """How many messages the topic's queue holds."""
    sqs = world.client("sqs")
    url = sqs.get_queue_url(QueueName=world.runtime.names.queue("orders"))["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(found["Attributes"]["ApproximateNumberOfMessages"])
