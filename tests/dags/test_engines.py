"""The engines on AWS: a start defers, a retry attaches, an ended run answers, and a lost one is tried again."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from airflow.sdk.exceptions import TaskDeferred

from dags.factory import release
from dags.factory.engines import ENGINES
from dags.factory.engines.remote import JobRunTrigger
from dags.factory.failures import ForGoodError, TriedAgainError
from dags.factory.spark_job import SparkJob
from lean_ops.aws.spark_runs import spark_runs
from lean_ops.batch.job import JobFailure, JobResult
from tests.dags.world import TOPIC, World
from tests.local.conftest import Emulator

KINDS = ("glue", "emr_serverless")
ANSWER = JobResult(topic="orders", hop="standardize", caught_up=True, batches=())
FAULT = JobFailure(error_class="data_fault", error="UnbalancedError", message="1 missing", next_step="")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, world: World) -> Any:
    """An engine on AWS."""
    _deploy(world)
    return request.param


def _deploy(world: World) -> None:
    """What the engines need, and a topic with rows in RAW."""
    names = world.runtime.names
    world.client("glue").create_job(
        Name=names.job("standardize"),
        Role="role",
        Command={"Name": "glueetl"},
        ExecutionProperty={"MaxConcurrentRuns": 50},
    )
    # The newest release that the emulation knows.
    world.client("emr-serverless").create_application(
        name=names.spark_application, releaseLabel="emr-6.6.0", type="SPARK"
    )
    world.land()


def task(kind: Any) -> SparkJob:
    return ENGINES[kind](task_id="standardize", topic=TOPIC, hop="standardize")


def context(run_id: str = "scheduled__2026-11-18T12:00:00+00:00") -> Any:
    ti = SimpleNamespace(dag_id="topic__orders", run_id=run_id)
    return {"ti": ti, "params": {"force": False, "hop": "all", "until_snapshot": None}}


def started(kind: Any, **more: Any) -> str:
    """Start the task until it defers; the id of the run that it waits for."""
    with pytest.raises(TaskDeferred) as deferred:
        task(kind).execute(context(**more))
    trigger = deferred.value.trigger
    assert isinstance(trigger, JobRunTrigger)
    assert deferred.value.method_name == "resume"
    assert JobRunTrigger(**trigger.serialize()[1]).serialize() == trigger.serialize()
    return trigger.run_id


def answer(world: World, kind: Any, run_id: str, result: JobResult) -> None:
    run = spark_runs(release.runtime(), kind).look("standardize", run_id)
    bucket = world.runtime.names.ops_bucket
    world.client("s3").put_object(Bucket=bucket, Key=run.result_key, Body=result.model_dump_json().encode())


def test_a_retry_attaches_to_the_run_under_way_and_a_cleared_task_starts_another(
    world: World, emulator: Emulator
) -> None:
    _deploy(world)
    pace = {"model_name": "glue::job_run", "transition": {"progression": "manual", "times": 4}}
    url = f"{emulator.endpoint}/moto-api/state-manager/set-transition"
    urlopen(url, json.dumps(pace).encode(), timeout=20)  # noqa: S310
    first = started("glue")
    assert started("glue") == first
    assert started("glue", run_id="scheduled__2026-11-18T12:15:00+00:00") != first
    glue = spark_runs(release.runtime(), "glue")
    while glue.look("standardize", first).status == "active":
        pass  # every look moves the emulated run on
    assert started("glue") != first


def test_a_start_on_emr_serverless_repeats_its_token_until_the_run_has_ended(world: World) -> None:
    _deploy(world)
    emr = world.client("emr-serverless")
    first, second = (started("emr_serverless") for _ in range(2))
    application = emr.list_applications()["applications"][0]["id"]
    runs = emr.list_job_runs(applicationId=application)["jobRuns"]
    assert {run["name"] for run in runs} == {"topic__orders.standardize.scheduled__2026-11-18T12-00-00-00-00"}
    assert first != second, "the emulated run has ended: the cleared task starts another"


def test_an_ended_run_answers_with_its_result(world: World, kind: Any) -> None:
    run_id = started(kind)
    answer(world, kind, run_id, ANSWER)
    assert task(kind).resume(context(), {"run_id": run_id}) == ANSWER.model_dump(mode="json")  # type: ignore[attr-defined]


def test_a_data_fault_is_not_tried_again_and_a_lost_run_is(world: World, kind: Any) -> None:
    run_id = started(kind)
    with pytest.raises(TriedAgainError, match="without an answer"):
        task(kind).resume(context(), {"run_id": run_id})  # type: ignore[attr-defined]
    answer(world, kind, run_id, ANSWER.model_copy(update={"failure": FAULT}))
    with pytest.raises(ForGoodError, match="1 missing"):
        task(kind).resume(context(), {"run_id": run_id})  # type: ignore[attr-defined]


def test_the_trigger_waits_for_the_end(world: World) -> None:
    world.client("glue").create_job(
        Name=world.runtime.names.job("standardize"), Role="r", Command={"Name": "x"}
    )
    world.land()
    run_id = started("glue")

    async def end() -> Any:
        # moto's runs go on with every look.
        waiting = JobRunTrigger(kind="glue", hop="standardize", run_id=run_id, poll_seconds=0.01).run()
        return await asyncio.wait_for(anext(aiter(waiting)), timeout=30)

    assert asyncio.run(end()).payload == {"run_id": run_id}


def test_spark_is_not_started_when_nothing_is_new(world: World) -> None:
    job = task("glue")
    assert job.execute(context())["batches"] == []


def test_a_hop_that_was_not_asked_for_starts_nothing(kind: Any) -> None:
    asked = context()
    asked["params"] |= {"hop": "curate", "force": True}
    assert task(kind).execute(asked)["batches"] == []
