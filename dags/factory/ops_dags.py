"""The operators' DAGs: upkeep by schedule, and replays that a person asks for with a reason and a dry run first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Context, CronDataIntervalTimetable, Param, task

from dags.factory import ops_tasks, release
from dags.factory.alerts import alert_failure, tell_groups
from dags.factory.engines import ENGINES
from dags.factory.spark_job import SparkJob
from dags.factory.topic_dag import START, pool
from lean_ops.batch.job import JobArguments
from lean_ops.config.environments import EnvironmentSpec
from lean_ops.config.repository import load_topic

_OPTIONS: dict[str, Any] = {
    "start_date": START,
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["ops"],
    "is_paused_upon_creation": False,
    "default_args": {
        "owner": "lean-ops",
        "retries": 3,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "execution_timeout": timedelta(minutes=15),
        "on_failure_callback": alert_failure,
    },
}


def ops_dags(environment: EnvironmentSpec) -> list[DAG]:
    """All of them, by name."""
    return [drift_report(), flush(), replay_dlq(), replay_errors(environment), revalidate()]


def flush() -> DAG:
    """Every five minutes: what waits in the outbox goes to ops_db, and grouped failures are told."""
    with DAG("ops__flush", schedule="*/5 * * * *", description="Outbox to ops_db.", **_OPTIONS) as dag:
        task(ops_tasks.flush_outbox)()
        task(tell_groups)()
    return dag


def drift_report() -> DAG:
    """Every morning: the columns that changed since the morning before."""
    timetable = CronDataIntervalTimetable("0 6 * * *", timezone="UTC")

    @task
    def report(**context: Any) -> list[dict[str, Any]]:
        return ops_tasks.report_drift(context.get("data_interval_start"), context.get("data_interval_end"))

    with DAG("ops__drift_report", schedule=timetable, description="Drift of a day.", **_OPTIONS) as dag:
        report()
    return dag


def replay_dlq() -> DAG:
    """Messages that did not reach RAW, on their way once more."""
    source = Param("dlq", enum=["dlq", "firehose"], description="Dead letters, or Firehose's errors.")

    @task
    def count(**context: Any) -> dict[str, int]:
        counts: dict[str, int] = ops_tasks.replay_letters(context["params"], dry_run=True)["counts"]
        return counts

    @task
    def replay(counts: dict[str, int], **context: Any) -> dict[str, Any]:
        ops_tasks.refuse_dry_run(context["params"], counts)
        done = ops_tasks.replay_letters(context["params"], dry_run=False)
        ops_tasks.record(context, done)  # type: ignore[arg-type]
        return done

    params = _asked() | {"source": source}
    with DAG(
        "ops__replay_dlq", schedule=None, params=params, description=replay_dlq.__doc__, **_OPTIONS
    ) as dag:
        replay(count())  # type: ignore[arg-type]
    return dag


class ReplayErrors(SparkJob):
    """The job of a topic that only the run's parameters name, on the environment's engine."""

    def execute(self, context: Context) -> dict[str, Any]:
        asked, counts = context["params"], context["ti"].xcom_pull(task_ids="count") or {}
        ops_tasks.refuse_dry_run(asked, counts)
        self.topic = load_topic(release.repository(), asked["topic"])
        if not counts:
            return self.idle("no open errors")
        return self.start(context, JobArguments(topic=self.topic, selection=ops_tasks.selection(asked)))


def replay_errors(environment: EnvironmentSpec) -> DAG:
    """Records that failed under their contract, validated once more under the one in force."""
    kind = environment.engine.kind
    engine = type(f"ReplayErrorsOn{kind.title()}", (ReplayErrors, ENGINES[kind]), {})

    @task
    def count(**context: Any) -> dict[str, int]:
        return ops_tasks.count_errors(context["params"])

    @task
    def note(done: dict[str, Any], **context: Any) -> None:
        ops_tasks.record(context, done)  # type: ignore[arg-type]
        ops_tasks.revalidated(context["params"])

    version = Param(None, type=["null", "string"], description="Of the contract that asked for it.")
    params = _asked() | {"version": version}
    with DAG(
        "ops__replay_errors", schedule=None, params=params, description=replay_errors.__doc__, **_OPTIONS
    ) as dag:
        replay = engine(task_id="replay", hop="replay", pool=pool(kind), execution_timeout=timedelta(hours=1))
        count() >> replay
        note(replay.output)
    return dag


def revalidate() -> DAG:
    """Every hour: a topic with a new contract gets its open errors validated under it, once for each version."""
    with DAG("ops__revalidate", schedule="17 * * * *", description=revalidate.__doc__, **_OPTIONS) as dag:
        TriggerDagRunOperator.partial(
            task_id="replay", trigger_dag_id="ops__replay_errors", skip_when_already_exists=True
        ).expand_kwargs(task(ops_tasks.due_revalidations)())
    return dag


def _asked() -> dict[str, Param]:
    return {
        "topic": Param(type="string", minLength=1, description="The topic."),
        "reason": Param(type="string", minLength=8, description="Why; it is kept in the run history."),
        "code": Param(None, type=["null", "string"], description="Only this error code."),
        "since": Param(
            None, type=["null", "string"], description="Detected since: 2026-11-18, or 24h, 7d ago."
        ),
        "dry_run": Param(True, type="boolean", description="Count only. Uncheck to replay."),
    }
