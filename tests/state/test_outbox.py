"""What a batch has to tell arrives in ops_db exactly once, wherever the flush dies and however many there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from lean_ops import ops_tables
from lean_ops.aws import row_filters
from lean_ops.aws.append_missing import append_missing
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import LeaseHeldError, Leases, epoch_millis
from lean_ops.aws.outbox import FLUSH_LEASE, Outbox, flush
from lean_ops.batch.batch_plan import SourceRange
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.outbox import OpsEvent, batch_events
from lean_ops.batch.steps import Steps
from lean_ops.naming import Names
from tests.batch_plans import plan_of

MIDNIGHT = datetime(2026, 11, 18, tzinfo=UTC)


def result(end: int = 2, batch_time: datetime = MIDNIGHT, drift: int = 1) -> BatchResult:
    plan = plan_of(
        SourceRange(start_snapshot=1, end_snapshot=end, first_day=date(2026, 1, 1), reason="incremental"),
        batch_time=batch_time,
    )
    return BatchResult.of(
        plan,
        published_snapshot=77,
        counts={
            "source_rows": 10, "source_messages": 9, "added_rows": 6, "known_messages": 2, "error_messages": 1,
        },
        fingerprints={"source_fingerprint": "1" * 38},
        drift=tuple(
            {"column": f"c{number}", "path": f"a.c{number}", "action": "ADDED", "old": "", "new": "number",
             "detail": ""}
            for number in range(drift)
        ),
        warnings=(),
        seconds={"publish": 0.5, "stage": 1.0},
    )  # fmt: skip


class Deadly(Steps):
    """Dies before or after a named step."""

    def __init__(self, step: str, when: str) -> None:
        super().__init__(log=lambda _: None)
        self._step, self._when = step, when

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if (name, "before") == (self._step, self._when):
            raise SystemExit
        with super().__call__(name):
            yield
        if (name, "after") == (self._step, self._when):
            raise SystemExit


@pytest.fixture
def leases(dynamodb: Any, names: Names) -> Leases:
    return Leases(dynamodb, names)


@pytest.fixture
def outbox(dynamodb: Any, names: Names) -> Outbox:
    return Outbox(dynamodb, names)


@pytest.fixture
def flushed(catalog: Catalog, outbox: Outbox, leases: Leases) -> Callable[..., dict[str, int]]:
    def run(steps: Steps | None = None) -> dict[str, int]:
        return flush(catalog, outbox, leases, "test", steps or Steps(log=lambda _: None))

    return run


def rows(catalog: Catalog, table: str) -> list[dict[str, Any]]:
    return catalog.load_table(("ops_db", table)).scan().to_arrow().to_pylist()


def test_a_batch_becomes_a_row_of_history_and_a_row_per_drift(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    outbox.put(result(drift=2))
    assert flushed() == {"job_run_history": 1, "drift_log": 2}
    (run,) = rows(catalog, "job_run_history")
    assert BatchResult.model_validate_json(run.pop("result")) == result(drift=2)
    assert run == {
        "event_id": "standardize-orders-1-2-20260101-open/run",
        "topic_name": "orders",
        "batch_id": "standardize-orders-1-2-20260101-open",
        "started_ts": MIDNIGHT,
        "hop": "standardize",
        "status": "succeeded",
        "duration_seconds": 1.5,
        "reason": "incremental",
        "start_snapshot": 1,
        "end_snapshot": 2,
        "first_day": date(2026, 1, 1),
        "last_day": None,
        "published_snapshot": 77,
        "contract_version": "1.0",
        "records_read": 10,
        "records_written": 6,
        "records_duplicate": 3,
        "records_error": 1,
        "error_rate": 0.1,
    }
    drift = sorted(rows(catalog, "drift_log"), key=lambda row: row["event_id"])
    assert drift[0] == {
        "event_id": "standardize-orders-1-2-20260101-open/drift/ADDED/c0",
        "topic_name": "orders",
        "batch_id": "standardize-orders-1-2-20260101-open",
        "detected_ts": MIDNIGHT,
        "column_name": "c0",
        "action": "ADDED",
        "source_layer": "standardized",
        "old_value": "",
        "new_value": "number",
        "details": '{"path": "a.c0", "detail": ""}',
    }


def test_a_flush_is_one_commit_per_table_and_leaves_nothing(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    for number in range(2, 42):
        outbox.put(result(number, MIDNIGHT + timedelta(days=number % 3)))
    assert flushed() == {"job_run_history": 40, "drift_log": 40}
    # The first snapshot is the empty one that every table begins with.
    assert len(catalog.load_table(("ops_db", "job_run_history")).snapshots()) == 2
    assert flushed() == {}
    assert len(catalog.load_table(("ops_db", "job_run_history")).snapshots()) == 2


def test_a_batch_that_tells_its_result_again_is_heard_once(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    outbox.put(result())
    outbox.put(result())
    assert flushed() == {"job_run_history": 1, "drift_log": 1}
    outbox.put(result())
    assert flushed() == {"job_run_history": 0, "drift_log": 0}
    assert len(rows(catalog, "job_run_history")) == 1
    assert outbox.waiting("job_run_history") == []


def effects() -> list[str]:
    return [
        f"{effect}_{table}"
        for table in ("job_run_history", "drift_log")
        for effect in ("read", "append", "remove")
    ]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", effects())
def test_a_flush_that_dies_anywhere_is_completed_by_the_next_one(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]], step: str, when: str
) -> None:
    outbox.put(result(2))
    outbox.put(result(3, MIDNIGHT + timedelta(days=5)))
    with pytest.raises(SystemExit):
        flushed(Deadly(step, when))
    outbox.put(result(4))
    flushed()
    for table in ("job_run_history", "drift_log"):
        assert sorted(row["batch_id"][21] for row in rows(catalog, table)) == ["2", "3", "4"]
        assert outbox.waiting(table) == []


def test_the_steps_of_a_flush_are_the_effects_that_are_tested(
    outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    outbox.put(result())
    steps = Steps(log=lambda _: None)
    flushed(steps)
    idle = {f"read_{table.name}" for table in ops_tables.OPS_TABLES}
    assert set(steps.seconds) == set(effects()) | idle


def test_only_one_flush_runs_at_a_time(
    leases: Leases, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    outbox.put(result())
    other = leases.acquire(FLUSH_LEASE, "other", 60, epoch_millis())
    with pytest.raises(LeaseHeldError):
        flushed()
    leases.release(other)
    assert flushed() == {"job_run_history": 1, "drift_log": 1}


def test_of_writers_that_append_the_same_rows_at_once_each_row_is_kept_once(
    open_lake: Callable[[], Catalog],
) -> None:
    """A flush that lost its lease while it slept is such a writer."""
    writers, spec = 4, ops_tables.DRIFT_LOG
    ensure_table(open_lake(), spec)
    lakes = [open_lake() for _ in range(writers)]
    events = [batch_events(result(number))[1].values for number in range(2, 12)]
    line = threading.Barrier(writers)

    def write(writer: int) -> int:
        line.wait(20)
        return append_missing(
            lakes[writer],
            spec.identifier,
            events[writer : writer + 6],
            key="event_id",
            where=row_filters.on_days("detected_ts", MIDNIGHT.date(), MIDNIGHT.date()),
        )

    with ThreadPoolExecutor(writers) as pool:
        counts = list(pool.map(write, range(writers)))
    ids = [row["event_id"] for row in rows(open_lake(), "drift_log")]
    assert sum(counts) == len(ids) == len(set(ids)) == 9


def test_of_rows_with_one_key_the_first_is_kept(catalog: Catalog) -> None:
    ensure_table(catalog, ops_tables.DRIFT_LOG)
    told = [{"event_id": "1", "detected_ts": MIDNIGHT, "details": text} for text in ("first", "second")]
    everywhere = row_filters.on_days("detected_ts", MIDNIGHT.date(), MIDNIGHT.date())
    assert append_missing(catalog, ("ops_db", "drift_log"), told, key="event_id", where=everywhere) == 1
    assert [row["details"] for row in rows(catalog, "drift_log")] == ["first"]


def test_two_thousand_drifts_and_a_large_result_fit(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    many = result(drift=2000)
    long = tuple({**change, "path": change["path"] + "x" * 900} for change in many.drift)
    outbox.put(many.model_copy(update={"drift": long}))
    assert flushed() == {"job_run_history": 1, "drift_log": 2000}
    assert len(rows(catalog, "drift_log")) == 2000


def test_every_kind_of_value_survives_the_outbox(
    catalog: Catalog, outbox: Outbox, flushed: Callable[..., dict[str, int]]
) -> None:
    values = {
        "event_id": "é/1",
        "computed_ts": MIDNIGHT + timedelta(microseconds=1),
        "record_count": 2**63 - 1,
        "total_amount": Decimal("12345678901234567890123456789012.123456"),
        "details": "line\nline",
        "topic_name": None,
    }
    event = OpsEvent("reconciliation_results", values)
    outbox.add([event])
    assert outbox.waiting("reconciliation_results") == [event]
    flushed()
    (row,) = rows(catalog, "reconciliation_results")
    assert {name: row[name] for name in values} == values


GOOD = {"event_id": "1", "started_ts": MIDNIGHT}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"started_ts": MIDNIGHT}, "without event_id"),
        ({"event_id": "1"}, "without started_ts"),
        ({**GOOD, "records_read": "7"}, "records_read"),
        ({**GOOD, "records_read": 2**63}, "records_read"),
        ({**GOOD, "records_read": True}, "records_read"),
        ({**GOOD, "result": "\ud800"}, "result"),
        ({**GOOD, "started_ts": datetime(2026, 1, 1)}, "started_ts"),  # noqa: DTZ001
        ({**GOOD, "first_day": MIDNIGHT}, "first_day"),
    ],
)
def test_an_event_that_its_table_could_not_hold_is_refused_before_it_waits(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        OpsEvent("job_run_history", values)


def test_an_event_knows_its_own_table(outbox: Outbox) -> None:
    with pytest.raises(KeyError):
        OpsEvent("somewhere", GOOD)
    with pytest.raises(KeyError):
        OpsEvent("job_run_history", {**GOOD, "unknown": 1})


def test_the_time_of_an_event_is_compared_in_utc() -> None:
    event = OpsEvent("job_run_history", GOOD)
    shifted = replace(
        event, values={**GOOD, "started_ts": datetime.fromisoformat("2026-11-18T02:00:00+02:00")}
    )
    assert shifted.sequence == event.sequence
