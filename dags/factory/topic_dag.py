"""A topic's DAG. Everything in it follows from the topic's file and its environment; parsing touches no network."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable

from dags.factory.alerts import alert_failure
from dags.factory.asked import params
from dags.factory.engines import ENGINES
from dags.factory.gating import CuratedGate, SchemaGate
from dags.factory.settling import Settle
from dags.factory.tables_task import EnsureTables
from dags.factory.texts import render
from lean_ops import naming
from lean_ops.config.environments import EnvironmentSpec
from lean_ops.config.topics import TopicSpec

# A constant: `now` would make a new version of the DAG with every parse.
START = datetime(2026, 1, 1, tzinfo=UTC)
_QUICK = timedelta(minutes=5)
_JOB = timedelta(minutes=60)


def pool(kind: str) -> str:
    """The pool that bounds how many jobs an engine runs at once."""
    return f"spark_{kind}"


def build_topic_dag(topic: TopicSpec, environment: EnvironmentSpec) -> DAG:
    """The DAG `topic__{name}`."""
    name, kind = topic.topic, topic.engine.kind or environment.engine.kind
    job: dict[str, Any] = {"topic": topic, "pool": pool(kind), "execution_timeout": _JOB}
    with DAG(
        naming.dag_id(name),
        description=topic.description.splitlines()[0][:200],
        doc_md=_documentation(topic, environment),
        schedule=timetable(topic),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=sorted({"topic", kind, *topic.tags}),
        default_args={
            "owner": topic.owner,
            "retries": 3,
            "retry_delay": timedelta(seconds=30),
            "retry_exponential_backoff": True,
            "max_retry_delay": timedelta(minutes=10),
            "execution_timeout": _QUICK,
            "on_failure_callback": alert_failure,
        },
    ) as dag:
        gate = SchemaGate(task_id="schema_gate", topic=topic)
        tables = EnsureTables(task_id="ensure_tables", topic=topic)
        standardize = ENGINES[kind](task_id="standardize", hop="standardize", **job)
        curated = CuratedGate(task_id="curated_gate", topic=topic)
        curate = ENGINES[kind](task_id="curate", hop="curate", **job)
        settle = Settle(task_id="settle", topic=topic).as_teardown()
        gate >> tables >> standardize >> curated >> curate >> settle
    # Last, so that Airflow does not copy them into every task, which would be a third of what it stores of a DAG;
    # and past its checks, which would take as long as all the rest of 700 DAGs.
    object.__setattr__(dag, "params", params())
    return dag


def timetable(topic: TopicSpec) -> CronDataIntervalTimetable | None:
    """Every few minutes, at minutes that a stable hash spreads: 700 topics at once would wait for each other."""
    if not topic.schedule.enabled:
        return None
    every = topic.schedule.every_minutes
    minutes = range(naming.stable_hash(topic.topic) % every, 60, every)
    return CronDataIntervalTimetable(f"{','.join(map(str, minutes))} * * * *", timezone="UTC")


def _documentation(topic: TopicSpec, environment: EnvironmentSpec) -> str:
    return render(
        "topic.md",
        topic=topic,
        names=environment.names,
        raw=".".join(naming.raw_table(topic.topic)),
        standardized=".".join(naming.standardized_table(topic.topic)),
        curated=".".join(naming.curated_table(topic.topic)),
    )
