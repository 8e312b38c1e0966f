"""What the engines on AWS are asked for: the same words for the job, and a start that can be repeated."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import boto3
import pytest

from lean_ops.aws.spark_runs import EmrServerlessRuns, GlueRuns, Run, Submission, attach_or_submit
from lean_ops.batch.job import JobArguments
from lean_ops.config.environments import SizeSpec
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import RetryableError
from lean_ops.naming import Names
from tests.state.conftest import ENVIRONMENT

# Of this account are the roles of moto inside a process.
OWN = replace(ENVIRONMENT.names, account="123456789012")
NOW = datetime(2026, 11, 18, tzinfo=UTC)
ARGUMENTS = JobArguments(topic=TopicSpec(topic="orders", owner="sales", description="Orders."))
JOB = Submission(
    identity="topic__orders.curate.run-1",
    attempt=0,
    hop="curate",
    arguments=ARGUMENTS,
    size=SizeSpec(glue_worker="G.2X", workers=8, executor_memory_gb=32),
    environment=ENVIRONMENT.model_dump_json(),
    timeout_minutes=60,
)


class Recorded:
    """A client that notes the arguments of its starts."""

    def __init__(self, client: Any, call: str) -> None:
        self._client, self._call = client, call
        self.starts: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name != self._call:
            return found

        def noted(**arguments: Any) -> Any:
            self.starts.append(arguments)
            return found(**arguments)

        return noted


@pytest.fixture
def names() -> Names:
    return OWN


@pytest.fixture
def glue(aws: None, names: Names) -> Recorded:
    client = boto3.client("glue")
    client.create_job(Name=names.job("curate"), Role="role", Command={"Name": "glueetl"})
    return Recorded(client, "start_job_run")


@pytest.fixture
def emr(aws: None, names: Names) -> Recorded:
    client = boto3.client("emr-serverless")
    client.create_application(name=names.spark_application, releaseLabel="emr-6.6.0", type="SPARK")
    return Recorded(client, "start_job_run")


def test_glue_gets_the_size_and_the_words_of_the_job(glue: Recorded, names: Names) -> None:
    GlueRuns(glue, names).submit(JOB)
    [start] = glue.starts
    assert start.pop("Arguments") == JOB.command
    assert start == {
        "JobName": "lean-ops-test-curate",
        "WorkerType": "G.2X",
        "NumberOfWorkers": 8,
        "Timeout": 60,
    }


def test_emr_serverless_gets_the_same_words_the_size_and_a_token(emr: Recorded, names: Names) -> None:
    EmrServerlessRuns(emr, names).submit(JOB)
    [start] = emr.starts
    driver = start["jobDriver"]["sparkSubmit"]
    words = driver["entryPointArguments"]
    assert dict(zip(words[::2], words[1::2], strict=True)) == JOB.command
    assert driver["entryPoint"].endswith("/jobs/curate.py")
    assert "spark.executor.memory=32g" in driver["sparkSubmitParameters"]
    assert start["executionRoleArn"] == names.spark_role_arn
    assert start["clientToken"] == JOB.token


def test_the_job_is_told_everything_in_words(glue: Recorded, names: Names) -> None:
    assert JobArguments.model_validate_json(JOB.command["--arguments"]) == ARGUMENTS
    assert json.loads(JOB.command["--environment"])["name"] == "test"
    assert JOB.command["--result"] == "job-results/orders/topic__orders.curate.run-1-0.json"
    assert replace(JOB, hop="replay").module == "replay_errors"


def test_the_token_is_the_same_for_a_repetition_and_another_for_the_next_attempt() -> None:
    assert replace(JOB).token == JOB.token
    assert len({JOB.token, replace(JOB, attempt=1).token, replace(JOB, identity="other").token}) == 3


@pytest.mark.parametrize("kind", ["glue", "emr"])
def test_a_run_is_found_again_by_its_identity(
    kind: str, request: pytest.FixtureRequest, names: Names
) -> None:
    client = request.getfixturevalue(kind)
    runs = GlueRuns(client, names) if kind == "glue" else EmrServerlessRuns(client, names)
    assert runs.find(JOB.identity, "curate", datetime.now(UTC)) == []
    run_id = runs.submit(JOB)
    [found] = runs.find(JOB.identity, "curate", datetime.now(UTC))
    assert (found.run_id, found.result_key) == (run_id, JOB.result_key)
    assert runs.find("another", "curate", datetime.now(UTC)) == []


def test_too_many_runs_at_once_are_tried_again(glue: Recorded, names: Names) -> None:
    refused = glue.exceptions.ConcurrentRunsExceededException({"Error": {}}, "StartJobRun")
    client = Mock(wraps=glue, exceptions=glue.exceptions, start_job_run=Mock(side_effect=refused))
    with pytest.raises(RetryableError, match="as many curate jobs as it may"):
        GlueRuns(client, names).submit(JOB)


def test_only_a_run_under_way_is_attached_to_and_ended_ones_count_as_attempts() -> None:
    ended = Run("r1", "failed", "FAILED", "key")
    engine = Mock(
        submit=Mock(return_value="r3"), find=Mock(return_value=[ended, replace(ended, run_id="r0")])
    )
    assert attach_or_submit(engine, JOB, NOW) == ("r3", True)
    assert engine.submit.call_args.args[0] == replace(JOB, attempt=2)
    engine.find.return_value = [ended, replace(ended, run_id="r2", status="active")]
    assert attach_or_submit(engine, JOB, NOW) == ("r2", False)
