"""The ledger of the second hop, against a look at every single record."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lean_ops import fingerprints
from spark_jobs.curated_ledger import CuratedLedger
from spark_jobs.transforms.casting import INSTANT, TEXT

IDENTITY = st.tuples(st.sampled_from("abc"), st.integers(0, 2))
KEY = st.sampled_from(["k", "m", "n"])
RECORDS = st.lists(st.tuples(IDENTITY, st.none() | st.just("") | KEY), max_size=8)
ROWS = st.lists(st.tuples(IDENTITY, KEY), max_size=6)


def table(rows: list[tuple[tuple[str, int], str | None]]) -> pa.Table:
    return pa.table(
        {
            "message_id": pa.array([name for (name, _), _ in rows], pa.string()),
            "publish_time": pa.array([moment for (_, moment), _ in rows], INSTANT),
            "idempotency_key": pa.array([key for _, key in rows], TEXT),
        }
    )


@given(RECORDS, ROWS, st.lists(IDENTITY, max_size=4), st.lists(IDENTITY, max_size=4))
def test_every_record_stands_where_the_tables_say(
    records: list[tuple[tuple[str, int], str | None]],
    rows: list[tuple[tuple[str, int], str]],
    errors: list[tuple[str, int]],
    before: list[tuple[str, int]],
) -> None:
    others = (table([(each, None) for each in some]) for some in (errors, before))
    ledger = CuratedLedger(table(records), table(rows), *others)
    books = ledger.books()
    sides: dict[str, list[tuple[str, int]]] = {side: [] for side in ("current", "superseded", "error")}
    missing, doubled = 0, 0
    for identity, key in records:
        theirs = [row for row, row_key in rows if row_key == key]
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
    if all(sum(row_key == key for _, row_key in rows) < 2 for _, key in records):
        assert books["missing"] == missing
        for side, identities in sides.items():
            assert books[f"{side}_messages"] == len(identities)
            assert books[f"{side}_fingerprint"] == fingerprints.of_messages(identities)
    known = {*before, *(identity for identity, _ in records)}
    assert books["foreign"] == sum(identity not in known for identity, _ in rows)
    assert bool(ledger.offenders()) == bool(books["missing"] or books["doubled"] or books["foreign"])
