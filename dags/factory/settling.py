"""The end of every run, however it went: its record, its metrics, and the topic's asset when rows were published."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Context

from dags.factory import release
from dags.factory.failures import told_to_airflow
from dags.factory.gating import GATE_KEY
from lean_ops import naming
from lean_ops.batch.job import JobResult
from lean_ops.batch.run_record import RunFacts, run_event, run_metrics
from lean_ops.config.topics import TopicSpec
from lean_ops.gates import TopicFacts

GATES = ("schema_gate", "curated_gate")
HOPS = ("standardize", "curate")


def topic_asset(topic: str) -> Asset:
    """What downstream DAGs schedule on: the topic's Curated table."""
    database, table = naming.curated_table(topic)
    return Asset(name=f"{database}.{table}", uri=f"lean-ops://{database}/{table}")


def topic_alias(topic: str) -> AssetAlias:
    """An alias, because an asset of its own would be told by every run, with news or without."""
    return AssetAlias(name=naming.dag_id(topic))


class Settle(BaseOperator):
    """Runs whatever happened before it; as a teardown it does not decide whether the run has succeeded."""

    def __init__(self, *, topic: TopicSpec, **options: Any) -> None:
        super().__init__(outlets=[topic_alias(topic.topic)], **options)
        self.topic = topic

    def execute(self, context: Context) -> dict[str, Any]:
        from lean_ops.aws import metrics
        from lean_ops.aws.alerts import AlertTopic
        from lean_ops.aws.clients import client
        from lean_ops.aws.gate_facts import gate_reader
        from lean_ops.aws.outbox import Outbox

        runtime, now = release.runtime(), datetime.now(UTC)
        with told_to_airflow():
            lag = _lag(gate_reader(runtime).facts(self.topic), now)
            facts = self._facts(context, lag, now)
            Outbox(client(runtime, "dynamodb"), runtime.names).add([run_event(facts)])
            cloudwatch = client(runtime, "cloudwatch")
            metrics.publish(cloudwatch, runtime.environment.name, run_metrics(facts), now)
            if facts.alerts:
                heard = AlertTopic(client(runtime, "sns"), runtime.names.alert_topic_arn)
                heard.publish(f"{runtime.environment.name}: {self.topic.topic}", "\n".join(facts.alerts))
        if facts.published:
            events = context["outlet_events"][topic_alias(self.topic.topic)]
            events.add(topic_asset(self.topic.topic), extra={"batches": list(facts.published)})
        return {"status": facts.status, "batches": facts.published, "lag_seconds": round(lag, 1)}

    def _facts(self, context: Context, lag: float, now: datetime) -> RunFacts:
        ti, run = context["ti"], context["dag_run"]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id])[ti.run_id]
        gates = ti.xcom_pull(task_ids=list(GATES), key=GATE_KEY)
        answers = ti.xcom_pull(task_ids=list(HOPS))
        return RunFacts(
            topic=self.topic.topic,
            run_id=ti.run_id,
            attempt=ti.try_number,
            due=run.run_after,
            seconds=(now - (run.start_date or now)).total_seconds(),
            lag_seconds=lag,
            states={task: state for task, state in states.items() if task != self.task_id},
            gates={name: gate["reason"] for name, gate in zip(GATES, gates, strict=False) if gate},
            results=tuple(JobResult.model_validate(answer, strict=False) for answer in answers if answer),
        )


def _lag(facts: TopicFacts, now: datetime) -> float:
    """How long the oldest rows wait that are not yet where the topic ends."""
    waiting = [hop.waiting_since for hop in (facts.standardize, facts.curate) if hop and hop.waiting_since]
    return (now - min(waiting)).total_seconds() if waiting else 0.0
