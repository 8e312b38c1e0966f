"""The ledger of the second hop, against a look at every single record."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lean_ops import fingerprints
from spark_jobs.curated_ledger import CuratedLedger
from spark_jobs.identities import hashes
from spark_jobs.transforms.casting import INSTANT, TEXT

IDENTITY = st.tuples(st.sampled_from("abc"), st.integers(0, 2))
KEY = st.sampled_from(["k", "m", "n"])
RECORDS = st.lists(st.tuples(IDENTITY, st.none() | st.just("") | KEY), max_size=8)
ROWS = st.lists(st.tuples(IDENTITY, KEY, IDENTITY), max_size=6)
BEFORE = st.lists(st.tuples(IDENTITY, KEY, IDENTITY), max_size=3, unique_by=lambda row: row[1])


def table(rows: list[tuple[tuple[str, int], str | None]]) -> pa.Table:
    return pa.table(
        {
            "message_id": pa.array([name for (name, _), _ in rows], pa.string()),
            "publish_time": pa.array([moment for (_, moment), _ in rows], INSTANT),
            "idempotency_key": pa.array([key for _, key in rows], TEXT),
        }
    )


def rows_table(rows: list[tuple[tuple[str, int], str, tuple[str, int]]]) -> pa.Table:
    """Rows of Curated: current version, key, first version."""
    firsts = {
        "first_message_id": pa.array([name for *_, (name, _) in rows], TEXT),
        "first_seen_ts": pa.array([moment for *_, (_, moment) in rows], INSTANT),
    }
    table_ = table([(current, key) for current, key, _ in rows])
    for name, column in firsts.items():
        table_ = table_.append_column(name, column)
    return table_


@given(RECORDS, ROWS, st.lists(IDENTITY, max_size=4), BEFORE)
def test_every_record_stands_where_the_tables_say(
    records: list[tuple[tuple[str, int], str | None]],
    rows: list[tuple[tuple[str, int], str, tuple[str, int]]],
    errors: list[tuple[str, int]],
    before: list[tuple[tuple[str, int], str, tuple[str, int]]],
) -> None:
    ledger = CuratedLedger(
        table(records),
        rows_table(rows),
        table([(each, None) for each in errors]),
        rows_table(before),
        hashes(table(records)),
    )
    books = ledger.books()
    sides: dict[str, list[tuple[str, int]]] = {side: [] for side in ("current", "superseded", "error")}
    missing, doubled = 0, 0
    for identity, key in records:
        theirs = [row for row, row_key, _ in rows if row_key == key]
        # Which of two rows counts is nobody's business: two are an offence by themselves.
        if len(theirs) > 1:
            doubled += 1
            continue
        own = theirs == [identity]
        greater = any(row[::-1] > identity[::-1] for row in theirs)
        if identity in errors:
            sides["error"].append(identity)
        elif own:
            sides["current"].append(identity)
        elif greater:
            sides["superseded"].append(identity)
        else:
            missing += 1
        doubled += (identity in errors and own) or [each for each, _ in records].count(identity) > 1
    assert books["doubled"] == doubled
    assert books["source_rows"] == len(records)
    assert books["source_fingerprint"] == fingerprints.of_messages(identity for identity, _ in records)
    if all(sum(row_key == key for _, row_key, _ in rows) < 2 for _, key in records):
        assert books["missing"] == missing
        for side, identities in sides.items():
            assert books[f"{side}_messages"] == len(identities)
            assert books[f"{side}_fingerprint"] == fingerprints.of_messages(identities)
    known = {*(row for row, *_ in before), *(identity for identity, _ in records)}
    assert books["foreign"] == sum(row not in known for row, *_ in rows)
    if len({key for _, key, _ in rows}) == len(rows):
        assert books["wrong_rows"] == wrong_rows(records, rows, set(errors), before)
    off = ("missing", "doubled", "foreign", "wrong_rows")
    assert bool(ledger.offenders()) <= bool(sum(books[name] for name in off))
    assert bool(ledger.offenders()) or not sum(books[name] for name in off[:3])


def wrong_rows(
    records: list[tuple[tuple[str, int], str | None]],
    rows: list[tuple[tuple[str, int], str, tuple[str, int]]],
    errors: set[tuple[str, int]],
    before: list[tuple[tuple[str, int], str, tuple[str, int]]],
) -> int:
    """Rows that fell behind or do not begin where they should, and keys that lost theirs."""
    was = {key: (current, first) for current, key, first in before}
    found = sum(key not in {row_key for _, row_key, _ in rows} for key in was)
    for current, key, first in rows:
        mine = [
            each
            for each, record_key in records
            if record_key == key and each not in errors and each[::-1] <= current[::-1]
        ]
        old_current, old_first = was.get(key, (current, first))
        firsts = {*(each for each, _ in records if each in mine), *([old_first] if key in was else [])}
        behind = old_current[::-1] > current[::-1]
        late = any(each[::-1] < first[::-1] for each in [*mine, old_first])
        late = late or first[::-1] > current[::-1]
        nobodys = first != current and first not in firsts
        found += behind or late or nobodys
    return found
