"""Numbers for identities, and the ledger that is kept with them, against a count of every single one."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lean_ops import fingerprints
from spark_jobs.identities import Ledger, hashes, marked, numbered, total

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Few of each, so that the same id stands at several times and the same time at several ids.
IDENTITIES = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "ab", "é", "a\x1f1"]), st.integers(-2, 2)), max_size=12
)
SIDES = st.fixed_dictionaries(dict.fromkeys(("source", "added", "before", "errors"), IDENTITIES))


def table(identities: list[tuple[str, int]]) -> pa.Table:
    return pa.table(
        {
            "message_id": pa.array([name for name, _ in identities], pa.string()),
            "publish_time": pa.array(
                [EPOCH + timedelta(microseconds=micros) for _, micros in identities],
                pa.timestamp("us", tz="UTC"),
            ),
            "more": pa.nulls(len(identities)),
        }
    )


@given(st.lists(IDENTITIES, min_size=1, max_size=4))
def test_the_same_identity_has_the_same_number_and_no_other_has_it(
    lists: list[list[tuple[str, int]]],
) -> None:
    numbers, size = numbered(*map(table, lists))
    found = {
        identity: number
        for identities, column in zip(lists, numbers, strict=True)
        for identity, number in zip(identities, column.tolist(), strict=True)
    }
    assert [[found[each] for each in identities] for identities in lists] == [
        each.tolist() for each in numbers
    ]
    assert sorted(found.values()) == list(range(size))


def test_marks_are_where_the_numbers_are() -> None:
    (numbers,), size = numbered(table([("a", 1), ("b", 1), ("a", 1)]))
    assert marked(numbers[2:], size).tolist() == [True, False]
    assert marked(numbers[:0], size).tolist() == [False, False]


@given(IDENTITIES)
def test_the_fingerprint_is_the_one_that_every_engine_computes(identities: list[tuple[str, int]]) -> None:
    assert total(hashes(table(identities))) == fingerprints.of_messages(identities)


@given(SIDES)
def test_the_books_are_those_of_a_count_of_every_message(sides: dict[str, list[tuple[str, int]]]) -> None:
    ledger = Ledger({side: table(rows) for side, rows in sides.items()}, hashes(table(sides["source"])))
    counts = {side: Counter(rows) for side, rows in sides.items()}
    everybody = {each for rows in sides.values() for each in rows}
    outcomes = {
        each: sum(counts[side][each] > 0 for side in ("added", "before", "errors")) for each in everybody
    }
    source = set(sides["source"])
    missing = {each for each in source if not outcomes[each]}
    doubled = {
        each
        for each in everybody
        if counts["added"][each] > 1 or counts["errors"][each] > 1 or (each in source and outcomes[each] > 1)
    }
    foreign = set(sides["added"]) - source
    assert ledger.books().as_dict() == {
        "source_rows": len(sides["source"]),
        "source_messages": len(source),
        "source_fingerprint": fingerprints.of_messages(source),
        "added_rows": len(sides["added"]),
        "added_fingerprint": fingerprints.of_messages(set(sides["added"])),
        "known_messages": len(source & set(sides["before"])),
        "known_fingerprint": fingerprints.of_messages(source & set(sides["before"])),
        "error_messages": len(source & set(sides["errors"])),
        "error_fingerprint": fingerprints.of_messages(source & set(sides["errors"])),
        "missing": len(missing),
        "doubled": len(doubled),
        "foreign": len(foreign),
        "superseded_messages": 0,
        "superseded_fingerprint": 0,
    }
    assert ledger.offenders(100) == sorted(name for name, _ in missing | doubled | foreign)
