"""What a run leaves behind: one row that says how it went, and metrics for what occurred."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lean_ops.batch.batch_plan import SourceRange
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.job import JobResult
from lean_ops.batch.run_record import RunFacts, run_event, run_metrics
from tests.batch_plans import plan_of

DUE = datetime(2026, 11, 18, 12, 15, tzinfo=UTC)
COUNTS = {"source_rows": 10, "source_messages": 9, "known_messages": 1, "added_rows": 7, "error_messages": 1}
DONE = dict.fromkeys(("schema_gate", "ensure_tables", "standardize"), "success")


def job(**counts: int) -> JobResult:
    plan = plan_of(SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"))
    facts: dict[str, Any] = {"published_snapshot": 3, "fingerprints": {}, "drift": (), "warnings": ()}
    batch = BatchResult.of(plan, counts=counts, seconds={}, **facts)
    return JobResult(topic="orders", hop="standardize", caught_up=True, batches=(batch,))


RUN = RunFacts(
    topic="orders",
    run_id="scheduled__1",
    attempt=1,
    due=DUE,
    seconds=42.0,
    lag_seconds=7.0,
    states=DONE,
    gates={"schema_gate": "standardize: rows up to snapshot 2 are new"},
    results=(job(**COUNTS),),
)
SKIPPED = replace(RUN, states={"schema_gate": "skipped", "curate": "skipped"}, results=())


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (RUN, "succeeded"),
        (replace(RUN, results=()), "succeeded"),
        (SKIPPED, "skipped"),
        (replace(RUN, states=DONE | {"curate": "failed"}), "failed"),
        (replace(RUN, states=DONE | {"curate": "upstream_failed"}), "failed"),
    ],
)
def test_a_run_is_as_good_as_its_worst_task(run: RunFacts, status: str) -> None:
    assert run.status == status
    assert run_event(run).values["status"] == status


def test_the_record_counts_every_outcome_and_names_the_batches() -> None:
    values = run_event(RUN).values
    outcomes = [values[f"records_{name}"] for name in ("read", "written", "duplicate", "error")]
    assert outcomes == [10, 7, 2, 1]
    assert json.loads(values["result"])["batches"] == ["standardize-orders-1-2"]
    assert values["started_ts"] == DUE


def test_corrections_count_as_written_and_what_they_replace_as_superseded() -> None:
    curated = replace(RUN, results=(job(**COUNTS, updated_rows=2, superseded_messages=2),))
    outcomes = {each.dimensions.get("Outcome"): each.value for each in run_metrics(curated)}
    assert (outcomes["written"], outcomes["superseded"]) == (9, 2)


def test_another_attempt_at_the_same_run_is_another_row() -> None:
    assert run_event(RUN).event_id == run_event(replace(RUN, seconds=1.0)).event_id
    assert run_event(RUN).event_id != run_event(replace(RUN, attempt=2)).event_id


def test_only_what_occurred_is_measured() -> None:
    found = {(each.name, each.dimensions.get("Outcome")): each.value for each in run_metrics(RUN)}
    assert found == {
        ("Lag", None): 7.0,
        ("Duration", None): 42.0,
        ("Records", "read"): 10,
        ("Records", "written"): 7,
        ("Records", "duplicate"): 2,
        ("Records", "error"): 1,
    }
    assert [each.name for each in run_metrics(SKIPPED)] == ["Lag"]
    quiet = replace(RUN, results=(job(**dict.fromkeys(COUNTS, 0)),))
    assert [each.name for each in run_metrics(quiet)] == ["Lag", "Duration"]


def test_what_should_be_heard_names_its_batch() -> None:
    [result] = RUN.results[:1]
    [batch] = result.batches[:1]
    loud = replace(
        RUN,
        results=(
            result.model_copy(
                update={"batches": (batch.model_copy(update={"alerts": ("6 of 100 records are invalid",)}),)}
            ),
        ),
    )
    assert RUN.alerts == ()
    assert loud.alerts == (f"6 of 100 records are invalid\nbatch: {batch.batch_id}",)
