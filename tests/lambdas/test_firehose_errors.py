"""Firehose's own failures: rows per message, whatever form they come in, and a way back to RAW."""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from lambdas.firehose_errors import handler as collector
from lean_ops import tables
from lean_ops.aws import recovery
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.recovery import ReplayResult
from lean_ops.ingestion import raw_record
from lean_ops.ingestion.firehose_failures import UNREADABLE
from lean_ops.ingestion.raw_record import RawRecord
from lean_ops.resources import FUNCTIONS
from tests.lambdas.world import TOPIC, World, error_line

SENT = 1_794_996_000_000_000


def record(message_id: str, topic: str = TOPIC) -> RawRecord:
    return RawRecord(message_id, topic, SENT, SENT // 1000, "k", '{"a":  1.10}')


def collect(world: World, *lines: str) -> dict[str, int]:
    """Firehose writes an object, and EventBridge tells of it."""
    return announce(world, world.write_error_object("iceberg-failed", *lines))


def announce(world: World, key: str) -> dict[str, int]:
    event = {
        "version": "0",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "time": "2026-11-18T10:01:00Z",
        "region": "us-east-1",
        "detail": {
            "version": "0",
            "bucket": {"name": world.runtime.names.ops_bucket},
            "object": {"key": key, "size": 1},
            "reason": "PutObject",
        },
    }
    return collector.handler(event, None)


def rows(world: World) -> list[dict[str, Any]]:
    return sorted(
        world.catalog.load_table(("iceberg_raw_db", "firehose_errors")).scan().to_arrow().to_pylist(),
        key=lambda row: (row["record_id"], row["attempt"]),
    )


def replay(world: World, now: float | None = None) -> ReplayResult:
    hatch = recovery.firehose_hatch(world.firehose_errors, world.ports.stream)
    return recovery.replay(hatch, TOPIC, time.time() if now is None else now)


def uncommitted_file(world: World, *records: RawRecord) -> str:
    """A data file as Firehose leaves it when its commits failed: there, and in no snapshot."""
    table = ensure_table(world.catalog, tables.raw(TOPIC))
    added: Table = world.catalog.load_table(table.name())
    rows = [{name: getattr(each, name) for name in each.__struct_fields__} for each in records]
    added.append(pa.Table.from_pylist(rows, schema=added.schema().as_arrow()))
    [path] = [task.file.file_path for task in added.scan().plan_files()]
    before = [entry.snapshot_id for entry in added.history()][-2]
    added.manage_snapshots().rollback_to_snapshot(before).commit()
    assert world.catalog.load_table(table.name()).scan().to_arrow().num_rows == 0
    return path


def test_a_failed_record_becomes_a_row_under_its_own_identity(world: World) -> None:
    text = raw_record.text(record("m1"))
    assert collect(world, error_line(text), error_line(raw_record.text(record("m2", "payments")))) == {
        "rows": 2
    }
    one = next(row for row in rows(world) if row["topic_name"] == TOPIC)
    assert (one["message_id"], one["status"], one["attempt"]) == ("m1", "open", 1)
    assert (one["error_code"], one["record"]) == ("Iceberg.MissingColumnWithinRecord", text)
    assert one["archive_key"].startswith("firehose-errors/iceberg-failed/")


def test_an_object_collected_again_adds_nothing(world: World) -> None:
    key = world.write_error_object("iceberg-failed", error_line(raw_record.text(record("m1"))), "no record")
    assert announce(world, key) == {"rows": 2}
    assert announce(world, key) == {"rows": 0}
    assert announce(world, "other/prefix") == {"rows": 0}


def test_the_messages_of_a_data_file_that_was_never_committed_become_rows(world: World) -> None:
    path = uncommitted_file(world, record("m1"), record("m2"))
    assert collect(world, json.dumps({"errorCode": "Iceberg.CommitFailed", "dataFiles": [path]})) == {
        "rows": 2
    }
    assert {row["message_id"] for row in rows(world)} == {"m1", "m2"}
    assert {row["error_code"] for row in rows(world)} == {"Iceberg.CommitFailed"}
    assert raw_record.decode(rows(world)[0]["record"]) == record("m1")


@pytest.mark.parametrize(
    "path",
    [
        "s3://lake/nowhere/no_topic_staging/data/x.parquet",
        "file:///etc/orders_staging/x.parquet",
        "file:///elsewhere/x.parquet",
    ],
)
def test_a_path_that_leads_to_no_raw_file_is_kept_unread(world: World, path: str) -> None:
    ensure_table(world.catalog, tables.raw(TOPIC))
    collect(world, path)
    [row] = rows(world)
    assert (row["error_code"], row["record"]) == (UNREADABLE, path)


def test_a_data_file_that_is_gone_is_kept_by_its_path(world: World) -> None:
    table = ensure_table(world.catalog, tables.raw(TOPIC))
    path = f"{table.location()}/data/gone.parquet"
    collect(world, path)
    assert [(row["error_code"], row["record"]) for row in rows(world)] == [(UNREADABLE, path)]


def strange_file(world: World, content: bytes) -> str:
    """Something in RAW's own folder that Firehose has never written so."""
    table = ensure_table(world.catalog, tables.raw(TOPIC))
    path = f"{table.location()}/data/strange.parquet"
    with table.io.new_output(path).create(overwrite=True) as stream:
        stream.write(content)
    return path


def parquet(**columns: list[Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no parquet",
        parquet(other=[1]),
        parquet(publish_time=["yesterday"]),
        parquet(message_id=["m1"])[:-9],
    ],
    ids=["empty", "no parquet", "no time", "no such time", "cut"],
)
def test_a_strange_data_file_is_kept_by_its_path_and_hides_no_other_record(
    world: World, content: bytes
) -> None:
    path = strange_file(world, content)
    collect(world, path, error_line(raw_record.text(record("m1"))))
    assert {(row["topic_name"], row["record"]) for row in rows(world)} == {
        ("(none)", path),
        (TOPIC, raw_record.text(record("m1"))),
    }


def test_a_strange_row_of_a_data_file_is_kept_as_text_beside_the_others(world: World) -> None:
    good = record("m2")
    fields: dict[str, list[Any]] = {name: [getattr(good, name)] * 2 for name in good.__struct_fields__}
    path = strange_file(world, parquet(**fields | {"message_id": [None, "m2"]}))
    collect(world, path)
    kept = {row["topic_name"]: (row["error_code"], row["record"]) for row in rows(world)}
    assert kept[TOPIC] == (UNREADABLE, raw_record.text(good))
    assert kept["(none)"][0] == UNREADABLE
    assert json.loads(kept["(none)"][1])["message_id"] is None


@pytest.mark.parametrize(
    "strange", [{"publish_time": 9_999_999_999_999_999_999}, {"publish_time": -(10**18)}]
)
def test_a_record_published_at_no_time_is_unreadable_and_hides_no_other(
    world: World, strange: dict[str, int]
) -> None:
    text = json.dumps(json.loads(raw_record.text(record("m1"))) | strange)
    assert collect(world, error_line(text), error_line(raw_record.text(record("m2")))) == {"rows": 2}
    assert {row["error_code"] for row in rows(world) if row["record"] == text} == {UNREADABLE}


def test_a_reason_with_half_a_character_in_it_is_kept(world: World) -> None:
    collect(world, error_line(raw_record.text(record("m1")), code="cut \ud83d"))
    assert [row["error_code"] for row in rows(world)] == ["cut \\ud83d"]


def test_a_replayed_record_reaches_raw_as_it_was_and_its_row_is_resolved(world: World) -> None:
    """It goes to Firehose itself: the processor remembers having delivered it."""
    collect(world, error_line(raw_record.text(record("m1"))))
    result, again = replay(world), replay(world)
    assert (result.sent, again.sent, again.in_flight) == (1, 0, 1)
    assert world.firehose.rows == [record("m1")]
    world.land()
    assert replay(world).resolved == 1
    assert [row["status"] for row in rows(world)] == ["open", "replayed", "resolved"]


def test_the_messages_of_a_data_file_are_replayed_like_any_other(world: World) -> None:
    path = uncommitted_file(world, record("m1"), record("m2"))
    collect(world, path)
    assert replay(world).sent == 2
    world.land()
    assert replay(world).resolved == 2
    table = world.catalog.load_table(("iceberg_raw_db", "orders_staging"))
    assert sorted(table.scan().to_arrow()["message_id"].to_pylist()) == ["m1", "m2"]


def test_a_failure_of_a_commit_that_had_happened_is_resolved_without_a_replay(world: World) -> None:
    table = ensure_table(world.catalog, tables.raw(TOPIC))
    world.firehose.accepted.append(raw_record.text(record("m1")).encode())
    world.land()
    [path] = [task.file.file_path for task in world.catalog.load_table(table.name()).scan().plan_files()]
    collect(world, path)
    result = replay(world)
    assert (result.resolved, result.sent) == (1, 0)


def test_a_record_that_fails_again_is_open_again(world: World) -> None:
    collect(world, error_line(raw_record.text(record("m1"))))
    replay(world)
    collect(world, error_line(raw_record.text(record("m1"))))
    assert [(row["attempt"], row["status"]) for row in rows(world)] == [
        (1, "open"),
        (2, "replayed"),
        (3, "open"),
    ]


def test_what_firehose_refuses_is_counted_and_stays_unresolved(world: World) -> None:
    collect(world, error_line(raw_record.text(record("m1"))))
    world.firehose.down = True
    result = replay(world)
    assert (result.sent, result.unsent) == (0, 1)
    assert [each.status for each in world.firehose_errors.standings(TOPIC)] == ["replayed"]


def test_missed_events_are_made_good_by_collecting_every_object(world: World) -> None:
    collect(world, error_line(raw_record.text(record("m1"))))
    world.write_error_object("iceberg-failed", error_line(raw_record.text(record("m2"))))
    assert collector._collector().collect_all(time.time()) == 1
    assert {row["message_id"] for row in rows(world)} == {"m1", "m2"}


SCHEDULED = {"version": "0", "detail-type": "Scheduled Event", "source": "aws.events", "detail": {}}


def put_error(world: World, message_id: str, kind: str, day: datetime) -> None:
    world.aws.s3.put_object(
        Bucket=world.runtime.names.ops_bucket,
        Key=f"firehose-errors/{kind}/{day:%Y/%m/%d/%H}/{message_id}",
        Body=error_line(raw_record.text(record(message_id))).encode(),
    )


def test_a_lost_event_is_made_good_by_the_schedule(world: World) -> None:
    now = datetime.now(UTC)
    put_error(world, "today", "iceberg-failed", now)
    put_error(world, "yesterday", "processing-failed", now - timedelta(days=1))
    put_error(world, "long ago", "iceberg-failed", now - timedelta(days=9))
    assert collector.handler(SCHEDULED, None) == {"rows": 2}
    assert {row["message_id"] for row in rows(world)} == {"today", "yesterday"}
    assert collector.handler(SCHEDULED, None) == {"rows": 0}
    assert FUNCTIONS["firehose_errors"].every_seconds


def test_more_lost_events_than_fit_into_one_run_are_made_good_by_several(world: World) -> None:
    for number in range(3):
        put_error(world, f"m{number}", "iceberg-failed", datetime.now(UTC))
    assert collector._collector().collect_recent(time.time(), most=1) == 1
    found = 1
    while found < 3:  # each run draws anew: ended by the suite's time limit if one were never drawn
        found += collector._collector().collect_recent(time.time(), most=1)
    assert {row["message_id"] for row in rows(world)} == {"m0", "m1", "m2"}
