"""The warm Spark process: jobs of several clients, a client that goes away, and a source that ends where it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from lean_ops import naming
from lean_ops.aws import lake
from lean_ops.aws.catalog import open_catalog
from lean_ops.batch.job import JobArguments, JobResult
from lean_ops.batch.local_job import LocalJob
from lean_ops.config.repository import Repository, load_topic
from lean_ops.errors import RetryableError
from tests.e2e.stack import FAST, LocalStack, wait_until
from tests.e2e.test_stack_life import processes
from tests.repositories import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.stack, pytest.mark.timeout(900)]

TOPICS = ("orders", "payments")


def message(number: int) -> dict[str, Any]:
    payload = {"orderId": f"o{number}", "paymentId": f"p{number}"}
    return {"message_id": f"m{number}", "publish_time": "2026-11-17T10:00:00Z", "payload": payload}


def ready(stack: LocalStack) -> bool:
    entries = json.loads(stack.command("schema", "status", "--json"))
    return set(TOPICS) <= {entry["topic"] for entry in entries if entry["open"]}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack with a warm Spark process, and two topics with two commits in RAW each."""
    stack = LocalStack(tmp_path_factory.mktemp("warm"))
    try:
        stack.command("local", "up", "--detach", "--spark", *(f"--set={pair}" for pair in FAST))
        for topic in TOPICS:
            stack.command("schema", "deploy", topic)
            for numbers in (range(10), range(10, 30)):
                stack.send(topic, map(message, numbers))
                stack.drain()
        wait_until(lambda: ready(stack))
        yield stack
    finally:
        stack.run("local", "down")
    wait_until(lambda: not processes(stack.home))


def arguments(topic: str, **more: Any) -> JobArguments:
    return JobArguments(topic=load_topic(Repository(ROOT), topic), **more)


def run(stack: LocalStack, asked: JobArguments) -> JobResult:
    job = LocalJob(stack.home, {})
    assert job.warm
    return job.run("standardize", asked, lambda _: None)


def rows(stack: LocalStack, topic: str) -> int:
    [counted] = stack.sql(f"select count(*) as n from iceberg_standardized_db.{topic}")  # noqa: S608 (ours)
    return int(counted["n"])


def test_a_run_reads_its_source_up_to_the_snapshot_it_is_told(stack: LocalStack) -> None:
    raw = open_catalog(stack.runtime.environment, stack.home).load_table(naming.raw_table("payments"))
    first = next(each for each in lake.ancestry(raw) if each.news.records)
    result = run(stack, arguments("payments", until_snapshot=first.snapshot_id))
    assert result.failure is None
    assert rows(stack, "payments") == first.news.records < 30
    assert run(stack, arguments("payments")).failure is None
    assert rows(stack, "payments") == 30
    missing = run(stack, arguments("payments", until_snapshot=7)).failure
    assert missing is not None
    assert "has no snapshot 7" in missing.message


def test_a_job_ends_with_its_client_and_the_next_one_finishes_what_it_left(stack: LocalStack) -> None:
    job, seen, ended = LocalJob(stack.home, {}), list[str](), list[Exception]()

    def listen(step: dict[str, Any]) -> None:
        seen.append(step["step"])
        if step["step"] == "open_plan":
            job.end()

    def work() -> None:
        try:
            job.run("standardize", arguments("orders"), listen)
        except RetryableError as error:
            ended.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join(60)
    assert ended
    assert seen[-1] == "open_plan"

    def finished() -> bool:
        # The job that lost its client may hold the lease for as long as its last step takes.
        failure = run(stack, arguments("orders")).failure
        assert failure is None or failure.error == "LeaseHeldError"
        return failure is None

    wait_until(finished)
    assert rows(stack, "orders") == 30


def test_the_command_line_uses_it_and_the_books_balance(stack: LocalStack) -> None:
    stack.command("run", "orders")
    assert stack.run("verify", "orders").exit_code == 0
