"""Which messages of a batch a greater version of their key supersedes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import versions

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[str, int, str | None]
ROWS = st.lists(
    st.tuples(st.text("ab é", max_size=2), st.integers(0, 2), st.sampled_from([None, "k", "l"])),
    unique_by=lambda row: row[:2],
    max_size=12,
)


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "message_id": pa.array([name for name, _, _ in rows], pa.large_string()),
            "publish_time": pa.array(
                [EPOCH + timedelta(seconds=moment) for _, moment, _ in rows], pa.timestamp("us", tz="UTC")
            ),
            "idempotency_key": pa.array([key for _, _, key in rows], pa.large_string()),
        }
    )


def beaten(rows: list[Row], by: list[Row]) -> list[tuple[str, int]]:
    return sorted(
        (name, moment)
        for name, moment, key in rows
        if key is not None and any(other[2] == key and (other[1], other[0]) > (moment, name) for other in by)
    )


def identities(found: pa.Table) -> list[tuple[str, int]]:
    moments = ((each - EPOCH) // timedelta(seconds=1) for each in found["publish_time"].to_pylist())
    return sorted(zip(found["message_id"].to_pylist(), moments, strict=True))


@given(ROWS)
def test_all_but_the_greatest_version_of_each_key_are_superseded(rows: list[Row]) -> None:
    assert identities(versions.superseded(table(rows))) == beaten(rows, rows)


@given(ROWS, ROWS)
def test_only_what_a_written_version_beats_is_confirmed(left_out: list[Row], written: list[Row]) -> None:
    assert identities(versions.confirmed(table(left_out), table(written))) == beaten(left_out, written)
