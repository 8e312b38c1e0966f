"""Tells people of failed tasks: what failed, why, where the log is and what to do next."""

from __future__ import annotations

import time
from typing import Any

from airflow.sdk import Context

from dags.factory import release
from dags.factory.failures import failure_behind
from dags.factory.texts import render
from lean_ops import naming

MEANINGS = {
    "retryable": "tried again until the retries were used up",
    "data_fault": "the data needs a decision: not tried again, and the gate stays closed",
    "state_unknown": "an effect may have happened: look before the next attempt",
    "fatal": "a fault of the code or its set-up: not tried again",
}


def alert_failure(context: Context) -> None:
    """Callback of a task that has failed for good. One alert per class and window, across all topics."""
    from lean_ops.aws.alert_groups import WINDOW_SECONDS, AlertGroups
    from lean_ops.aws.alerts import AlertTopic
    from lean_ops.aws.clients import client

    ti, runtime = context["ti"], release.runtime()
    topic = ti.dag_id.removeprefix(naming.dag_id(""))
    failure = failure_behind(context.get("exception"))
    groups = AlertGroups(client(runtime, "dynamodb"), runtime.names)
    if not groups.first(failure.error_class, topic, time.time()):
        return
    text = render(
        "failure.txt",
        topic=topic,
        run_id=ti.run_id,
        task_id=ti.task_id,
        attempt=ti.try_number,
        failure=failure,
        meaning=MEANINGS[failure.error_class],
        log_url=getattr(ti, "log_url", ""),
        # An operators' DAG is no topic.
        fallback=f"lean-ops verify {topic}" if topic != ti.dag_id else "read the log, then clear the task",
        window_minutes=WINDOW_SECONDS // 60,
    )
    AlertTopic(client(runtime, "sns"), runtime.names.alert_topic_arn).publish(
        f"{runtime.environment.name}: {topic} failed in {ti.task_id} ({failure.error_class})", text
    )


def tell_groups() -> list[dict[str, Any]]:
    """Close the groups whose window is over, one alert each."""
    from lean_ops.aws.alert_groups import AlertGroups
    from lean_ops.aws.alerts import AlertTopic
    from lean_ops.aws.clients import client

    runtime = release.runtime()
    groups = AlertGroups(client(runtime, "dynamodb"), runtime.names)
    alerts = AlertTopic(client(runtime, "sns"), runtime.names.alert_topic_arn)
    told = []
    for error_class, meaning in MEANINGS.items():
        group = groups.close(error_class, time.time())
        if group is not None:
            text = render("failures.txt", group=group, meaning=meaning)
            alerts.publish(
                f"{runtime.environment.name}: {group.failures} more failures ({error_class})", text
            )
            told.append({"error_class": error_class, "failures": group.failures})
    return told
