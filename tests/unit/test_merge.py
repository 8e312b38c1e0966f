"""What a batch does to Curated, against a plain count of every version of every key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.merge import RECORD, ROW, merge
from spark_jobs.transforms.casting import INSTANT, TEXT


class Version(NamedTuple):
    """A record, with a period that tells it from any other."""

    publish_time: int
    message_id: str
    key: str
    period: str = ""


class Known(NamedTuple):
    """A row of Curated: its current version and its first one."""

    key: str
    current: Version
    first: Version


# Few of each, so that times are equal, keys are shared and versions come in any order.
MOMENTS, IDS, KEYS = st.integers(0, 3), st.sampled_from(["a", "b", "ab", "é"]), st.sampled_from("kmn")
VERSIONS = st.lists(st.tuples(MOMENTS, IDS, KEYS), unique_by=lambda each: each[:2], max_size=10)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Version], list[bool], list[Known]]:
    """Records, which of them are valid, and what older ones of the same keys left in Curated."""
    drawn = [Version(*each, f"p{number}") for number, each in enumerate(draw(VERSIONS))]
    old = draw(st.integers(0, len(drawn)))
    records = drawn[old:]
    valid = draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    keys = sorted({each.key for each in drawn[:old]})
    versions = {key: sorted(each for each in drawn[:old] if each.key == key) for key in keys}
    return records, valid, [Known(key, each[-1], each[0]) for key, each in versions.items()]


def records_table(records: list[Version]) -> pa.Table:
    columns = {
        "message_id": pa.array([each.message_id for each in records], TEXT),
        "publish_time": pa.array([each.publish_time for each in records], INSTANT),
        "idempotency_key": pa.array([each.key for each in records], pa.string()),
        "period_reference": pa.array([each.period for each in records], TEXT),
    }
    return pa.table({name: columns[name] for name in RECORD})


def known_table(rows: list[Known]) -> pa.Table:
    columns = {
        "message_id": pa.array([each.current.message_id for each in rows], pa.string()),
        "publish_time": pa.array([each.current.publish_time for each in rows], INSTANT),
        "first_message_id": pa.array([each.first.message_id for each in rows], TEXT),
        "first_period_reference": pa.array([each.first.period for each in rows], TEXT),
        "first_seen_ts": pa.array([each.first.publish_time for each in rows], INSTANT),
    }
    keys = {"idempotency_key": pa.array([each.key for each in rows], TEXT)}
    return pa.table(keys | {name: columns[name] for name in ROW})


@given(batches())
def test_the_greatest_version_wins_and_the_least_is_remembered(
    batch: tuple[list[Version], list[bool], list[Known]],
) -> None:
    records, valid, known = batch
    found = merge(records_table(records), np.flatnonzero(np.array(valid, np.bool_)), known_table(known))
    before = {row.key: row for row in known}
    after: dict[str, Known] = {}
    for record, is_valid in zip(records, valid, strict=True):
        if is_valid:
            row = after.get(record.key, before.get(record.key))
            after[record.key] = (
                Known(record.key, max(row.current, record), min(row.first, record))
                if row
                else Known(record.key, record, record)
            )
    changed = {key: row for key, row in after.items() if row != before.get(key)}

    won = [records[row] for row in found.winners]
    told = dict(zip([each.key for each in won], found.winners_firsts.to_pylist(), strict=True))
    kept = dict(zip([known[row].key for row in found.kept], found.kept_firsts.to_pylist(), strict=True))
    assert list(found.winners) == sorted(found.winners)
    assert {each.key: each for each in won} == {
        key: row.current for key, row in changed.items() if row.current in records
    }
    assert len(won) + len(kept) == len(changed)
    assert {key: named(row.first) for key, row in changed.items()} == {
        key: firsts | {"first_seen_ts": firsts["first_seen_ts"].timestamp() * 1_000_000}
        for key, firsts in (told | kept).items()
    }
    assert sorted(known[row].key for row in found.gone) == sorted(changed.keys() & before.keys())
    assert (found.keys, found.known_keys) == (len(after), len(after.keys() & before.keys()))


def named(first: Version) -> dict[str, object]:
    return {
        "first_message_id": first.message_id,
        "first_period_reference": first.period,
        "first_seen_ts": first.publish_time,
    }
