"""What the operators' DAGs do: one function per task, each of which may be repeated."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from dags.factory import release
from dags.factory.failures import told_to_airflow
from dags.factory.texts import render
from lean_ops.batch.batch_plan import ErrorSelection
from lean_ops.batch.outbox import OpsEvent
from lean_ops.config.repository import load_topic
from lean_ops.identity import to_datetime
from lean_ops.ingestion.moments import moment
from lean_ops.ops_tables import JOB_RUN_HISTORY

log = logging.getLogger(__name__)


def flush_outbox() -> dict[str, int]:
    """Move what waits in the outbox to ops_db."""
    from lean_ops.aws import outbox
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.clients import client
    from lean_ops.aws.leases import Leases
    from lean_ops.batch.steps import Steps

    runtime = release.runtime()
    dynamodb = client(runtime, "dynamodb")
    with told_to_airflow():
        return outbox.flush(
            open_catalog(runtime.environment, runtime.home),
            outbox.Outbox(dynamodb, runtime.names),
            Leases(dynamodb, runtime.names),
            f"ops-flush-{uuid4().hex}",
            Steps(lambda step: log.info("%s", step)),
        )


def report_drift(start: datetime | None, end: datetime | None) -> list[dict[str, Any]]:
    """Tell what drifted in the span, or in the last day when there is none."""
    from lean_ops.aws.alerts import AlertTopic
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.clients import client
    from lean_ops.aws.drift_report import drifted

    runtime = release.runtime()
    end = end or datetime.now(UTC)
    start = start or end - timedelta(days=1)
    with told_to_airflow():
        topics = drifted(open_catalog(runtime.environment, runtime.home), start, end)
        if topics:
            text = render("drift.txt", topics=topics, start=start.isoformat(), end=end.isoformat())
            alerts = AlertTopic(client(runtime, "sns"), runtime.names.alert_topic_arn)
            alerts.publish(f"{runtime.environment.name}: {len(topics)} topics drifted", text)
    return [asdict(topic) for topic in topics]


def count_errors(asked: Mapping[str, Any]) -> dict[str, int]:
    """How many open errors a replay would validate again, by code."""
    from lean_ops import tables
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.open_errors import open_errors

    runtime = release.runtime()
    with told_to_airflow():
        topic = load_topic(release.repository(), asked["topic"]).topic
        table = open_catalog(runtime.environment, runtime.home).load_table(tables.ERRORS.identifier)
        return dict(Counter(each.error_code for each in open_errors(table, topic, selection(asked))))


def replay_letters(asked: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    """Send a topic's open dead letters (or what Firehose could not deliver) again; or only count them."""
    from lean_ops.aws import error_tables, ingestion, recovery
    from lean_ops.aws.catalog import open_catalog

    runtime, now = release.runtime(), time.time()
    with told_to_airflow():
        topic = load_topic(release.repository(), asked["topic"]).topic
        catalog = open_catalog(runtime.environment, runtime.home)
        if asked["source"] == "dlq":
            errors = error_tables.dlq_errors(catalog)
            hatch = recovery.dlq_hatch(errors, ingestion.queues(runtime), topic, now)
        else:
            errors = error_tables.firehose_errors(catalog)
            hatch = recovery.firehose_hatch(errors, ingestion.delivery_stream(runtime))
        since = moment(asked["since"], now) if asked["since"] else None
        result = recovery.replay(hatch, topic, now, since=since, code=asked["code"] or None, dry_run=dry_run)
    return asdict(result)


def due_revalidations() -> list[dict[str, Any]]:
    """The replays that new contracts ask for, as runs of `ops__replay_errors`: one per topic and version."""
    from lean_ops.aws.clients import client
    from lean_ops.aws.registry import Registry

    runtime = release.runtime()
    with told_to_airflow():
        entries = Registry(client(runtime, "dynamodb"), runtime.names).all()
    due = [(entry.topic, entry.revalidate_errors) for entry in entries if entry.revalidate_errors]
    return [
        {
            "trigger_run_id": f"revalidate__{topic}__{version}",
            "conf": {
                "topic": topic,
                "reason": f"contract {version} came into force",
                "version": version,
                "dry_run": False,
            },
        }
        for topic, version in due
    ]


def revalidated(asked: Mapping[str, Any]) -> None:
    """The errors that a contract asked for are validated; a newer contract asks again."""
    from lean_ops.aws.clients import client
    from lean_ops.aws.registry import Registry

    runtime = release.runtime()
    if asked["version"]:
        with told_to_airflow():
            registry = Registry(client(runtime, "dynamodb"), runtime.names)
            registry.revalidated(asked["topic"], asked["version"])


def selection(asked: Mapping[str, Any]) -> ErrorSelection:
    """The errors that a replay was asked for."""
    since = to_datetime(moment(asked["since"], time.time())) if asked["since"] else None
    return ErrorSelection(error_code=asked["code"] or None, since=since)


def refuse_dry_run(asked: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Skip what would change something, unless it was asked for."""
    if asked["dry_run"]:
        raise AirflowSkipException(f"dry run: {sum(counts.values())} records would be replayed")


def record(context: Context, done: Mapping[str, Any]) -> None:
    """Who replayed what, and why, for the run history."""
    from lean_ops.aws.clients import client
    from lean_ops.aws.outbox import Outbox

    ti, asked, runtime = context["ti"], context["params"], release.runtime()
    by = getattr(context["dag_run"], "triggering_user_name", None)
    told = {"reason": asked["reason"], "by": by, "asked": dict(asked), "done": dict(done)}
    event = {
        "event_id": f"{ti.dag_id}/{ti.run_id}/{ti.try_number}",
        "topic_name": asked["topic"],
        "started_ts": context["dag_run"].run_after,
        "hop": ti.dag_id.removeprefix("ops__"),
        "status": "succeeded",
        "result": json.dumps(told, default=str),
    }
    with told_to_airflow():
        outbox = Outbox(client(runtime, "dynamodb"), runtime.names)
        outbox.add([OpsEvent(JOB_RUN_HISTORY.name, event)])
