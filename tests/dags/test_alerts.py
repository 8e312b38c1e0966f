"""What people hear of a failure: everything they need to act, and one alert per outage."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout

from dags.factory import alerts
from dags.factory.failures import ForGoodError, TriedAgainError, checked, told_to_airflow
from lean_ops.aws import alert_groups
from lean_ops.batch.job import JobFailure, JobResult
from lean_ops.errors import DataFaultError, RetryableError, StateUnknownError
from tests.dags.world import World


def failing(topic: str, error: BaseException | None, dag_id: str = "") -> Any:
    """The context of a task that failed, as far as the callback looks at it."""
    ti = SimpleNamespace(
        dag_id=dag_id or f"topic__{topic}",
        run_id="scheduled__1",
        task_id="curate",
        try_number=4,
        log_url="http://log",
    )
    return {"ti": ti, "exception": error}


def caught(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as raised, told_to_airflow():  # noqa: PT011 (whatever it becomes)
        raise error
    return raised.value


@pytest.mark.parametrize(
    ("error", "retried", "word"),
    [
        (RetryableError("throttled"), True, "retryable"),
        (DataFaultError("40 of 100 lack a key"), False, "data_fault"),
        (StateUnknownError("no answer to a commit"), False, "state_unknown"),
    ],
)
def test_only_retryable_errors_are_tried_again(error: Exception, retried: bool, word: str) -> None:
    raised = caught(error)
    assert isinstance(raised, TriedAgainError if retried else ForGoodError)
    assert isinstance(raised, AirflowFailException) is not retried
    assert word in str(raised)


def test_a_jobs_failure_fails_the_task_in_its_own_words() -> None:
    failure = JobFailure(
        error_class="data_fault", error="CdeSpikeError", message="40 of 100", next_step="accept"
    )
    result = JobResult(topic="orders", hop="curate", caught_up=False, batches=(), failure=failure)
    with pytest.raises(ForGoodError, match=r"CdeSpikeError \(data_fault\): 40 of 100; next: accept"):
        checked(result)


def test_errors_that_are_not_ours_are_left_to_airflow() -> None:
    assert isinstance(caught(AirflowTaskTimeout("too long")), AirflowTaskTimeout)


def test_an_alert_says_what_where_why_and_what_next(world: World) -> None:
    error = caught(DataFaultError("40 of 100 lack a key", next_step="lean-ops batch accept b1 --reason …"))
    alerts.alert_failure(failing("orders", error))
    [text] = world.alerts()
    for word in (
        "orders",
        "scheduled__1",
        "curate",
        "data_fault",
        "DataFaultError",
        "40 of 100 lack a key",
        "http://log",
        "lean-ops batch accept b1",
    ):
        assert word in text


def test_the_next_command_is_one_that_there_is(world: World) -> None:
    alerts.alert_failure(failing("orders", RetryableError("throttled")))
    alerts.alert_failure(failing("", DataFaultError("no room"), "ops__flush"))
    of_topic, of_operators = world.alerts()
    assert "lean-ops verify orders" in of_topic
    assert "lean-ops" not in of_operators


@pytest.mark.parametrize(
    ("error", "word"),
    [(None, "without a word"), (AirflowTaskTimeout("Timeout, PID: 7"), "AirflowTaskTimeout")],
)
def test_a_task_that_was_cut_off_is_of_unknown_state(
    world: World, error: BaseException | None, word: str
) -> None:
    alerts.alert_failure(failing("orders", error))
    [text] = world.alerts()
    assert "state_unknown" in text
    assert word in text


def test_one_outage_is_one_alert_and_its_end_names_all_topics(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("orders", "payments", "events"):
        alerts.alert_failure(failing(topic, caught(RetryableError("throttled"))))
    alerts.alert_failure(failing("orders", caught(DataFaultError("bad"))))
    heard = world.alerts()
    assert len(heard) == 2, "one per class"
    assert alerts.tell_groups() == []
    now = alerts.time.time() + alert_groups.WINDOW_SECONDS + 1
    monkeypatch.setattr(alerts.time, "time", lambda: now)
    assert alerts.tell_groups() == [{"error_class": "retryable", "failures": 2}]
    [summary] = world.alerts()
    assert "events, payments" in summary
    assert alerts.tell_groups() == []
    alerts.alert_failure(failing("orders", caught(RetryableError("throttled"))))
    assert len(world.alerts()) == 1, "the next outage is told again"
