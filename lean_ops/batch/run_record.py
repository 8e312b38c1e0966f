"""What a run of a topic's DAG leaves behind: one row of the run history, and its metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lean_ops.batch.job import JobResult
from lean_ops.batch.outbox import OpsEvent
from lean_ops.ops_tables import JOB_RUN_HISTORY

RunStatus = Literal["succeeded", "skipped", "failed"]


@dataclass(frozen=True)
class RunFacts:
    """One attempt at a run: the states of its tasks, what its gates said, and what its jobs answered.

    `due` is when the run was due: the same for every attempt, and so is the partition of its rows.
    """

    topic: str
    run_id: str
    attempt: int
    due: datetime
    seconds: float
    lag_seconds: float
    states: Mapping[str, str | None]
    gates: Mapping[str, str]
    results: tuple[JobResult, ...]

    @property
    def status(self) -> RunStatus:
        states = set(self.states.values())
        if states & {"failed", "upstream_failed"}:
            return "failed"
        return "succeeded" if self.published or self.states.get("schema_gate") == "success" else "skipped"

    @property
    def published(self) -> tuple[str, ...]:
        """The batches that the run made visible."""
        return tuple(batch.batch_id for result in self.results for batch in result.batches)

    @property
    def alerts(self) -> tuple[str, ...]:
        """What somebody should hear about although the batches went through."""
        return tuple(
            f"{text}\nbatch: {batch.batch_id}"
            for result in self.results
            for batch in result.batches
            for text in batch.alerts
        )


@dataclass(frozen=True)
class Metric:
    """One measurement of a topic."""

    name: str
    value: float
    unit: Literal["Count", "Seconds"]
    dimensions: Mapping[str, str]


def run_event(facts: RunFacts) -> OpsEvent:
    """The run as an event of the run history."""
    totals = [_outcomes(result) for result in facts.results]
    summed = {
        name: sum(total[name] for total in totals) for name in ("read", "written", "duplicate", "error")
    }
    told = {"states": dict(facts.states), "gates": dict(facts.gates), "batches": facts.published}
    return OpsEvent(
        JOB_RUN_HISTORY.name,
        {
            "event_id": f"run/{facts.topic}/{facts.run_id}/{facts.attempt}",
            "topic_name": facts.topic,
            "started_ts": facts.due,
            "hop": "run",
            "status": facts.status,
            "duration_seconds": float(facts.seconds),
            "records_read": summed["read"],
            "records_written": summed["written"],
            "records_duplicate": summed["duplicate"],
            "records_error": summed["error"],
            "result": json.dumps(told),
        },
    )


def run_metrics(facts: RunFacts) -> list[Metric]:
    """Duration and lag of the run, and the records of every outcome that occurred: an absent metric is free."""
    topic = {"Topic": facts.topic}
    measured = [Metric("Lag", facts.lag_seconds, "Seconds", topic)]
    if facts.status != "skipped":
        measured.append(Metric("Duration", facts.seconds, "Seconds", topic))
    for result in facts.results:
        for outcome, count in _outcomes(result).items():
            if count:
                dimensions = topic | {"Hop": result.hop, "Outcome": outcome}
                measured.append(Metric("Records", count, "Count", dimensions))
    return measured


def _outcomes(result: JobResult) -> dict[str, int]:
    counted = [batch.counts for batch in result.batches]

    def total(name: str) -> int:
        return sum(counts.get(name, 0) for counts in counted)

    read = total("source_rows")
    return {
        "read": read,
        "written": total("added_rows") + total("updated_rows"),
        "duplicate": read - total("source_messages") + total("known_messages"),
        "superseded": total("superseded_messages"),
        "error": total("error_messages"),
    }
