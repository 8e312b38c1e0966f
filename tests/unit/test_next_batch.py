"""Whatever happens to source, target and state, the batches cover every row; undisturbed, exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lean_ops.batch.batch_plan import BatchPlan, SourceRange, Token
from lean_ops.batch.next_batch import (
    Facts,
    Finish,
    NothingNew,
    Read,
    Refused,
    Replay,
    SourceSnapshot,
    Volume,
    decide,
)
from tests.batch_plans import plan_of

DAY = date(2026, 1, 1)
BIG = Volume(1000, 10**9)
Rows = dict[int, int]  # rows by number of publish day


def append(snapshot_id: int, parent_id: int | None, records: int = 1) -> SourceSnapshot:
    return SourceSnapshot(snapshot_id, parent_id, "append", Volume(records, records * 100))


def no_days(_start: int | None, _end: int) -> Mapping[date, Volume]:
    raise AssertionError("asked for days of a range that need not be cut")


def days(*rows: int) -> dict[date, Volume]:
    """Volumes of consecutive days."""
    return {DAY + timedelta(days=index): Volume(count, count * 100) for index, count in enumerate(rows)}


def token(end: int, start: int | None = None, last_day: date | None = None) -> Token:
    reason = "incremental" if start else "first_read"
    return plan_of(
        SourceRange(start_snapshot=start, end_snapshot=end, last_day=last_day, reason=reason)
    ).token


def facts(*snapshots: SourceSnapshot, **other: object) -> Facts:
    known: dict[str, object] = {
        "token": None, "target_whole": True, "checkpoint": None, "open_plan": None, "bite": BIG,
    }  # fmt: skip
    return Facts(snapshots, **(known | other))  # type: ignore[arg-type]


def incremental(start: int, end: int, first: date | None = None, last: date | None = None) -> Read:
    return Read(
        SourceRange(
            start_snapshot=start, end_snapshot=end, first_day=first, last_day=last, reason="incremental"
        )
    )


def whole(end: int, reason: str = "first_read", last: date | None = None, first: date | None = None) -> Read:
    return Read(
        SourceRange.model_validate(
            {
                "start_snapshot": None,
                "end_snapshot": end,
                "first_day": first,
                "last_day": last,
                "reason": reason,
            }
        )
    )


HISTORY = (append(1, None), append(2, 1), append(3, 2))


def test_a_source_without_snapshots_has_nothing_new() -> None:
    assert decide(facts(), no_days) == NothingNew()


def test_the_first_batch_reads_everything_up_to_the_head() -> None:
    assert decide(facts(*HISTORY), lambda *_: days(3)) == whole(3)


def test_a_first_read_of_an_empty_table_is_nothing_new() -> None:
    assert decide(facts(append(1, None, 0)), lambda *_: {}) == NothingNew()


def test_the_next_batch_reads_on_from_the_token() -> None:
    assert decide(facts(*HISTORY, token=token(1)), no_days) == incremental(1, 3)


def test_at_the_head_there_is_nothing_new() -> None:
    assert decide(facts(*HISTORY, token=token(3)), no_days) == NothingNew()


def test_the_token_beats_the_checkpoint() -> None:
    decision = decide(facts(*HISTORY, token=token(2), checkpoint=3, target_whole=False), no_days)
    assert decision == incremental(2, 3)


def test_a_target_rolled_back_to_its_beginning_starts_over_whatever_the_checkpoint_says() -> None:
    assert decide(facts(*HISTORY, checkpoint=3), lambda *_: days(3)) == whole(3)


def test_without_a_token_in_what_expiry_left_the_checkpoint_counts() -> None:
    assert decide(facts(*HISTORY, checkpoint=2, target_whole=False), no_days) == incremental(2, 3)


def test_with_neither_token_nor_checkpoint_everything_is_read_again_and_says_so() -> None:
    assert decide(facts(*HISTORY, target_whole=False), lambda *_: days(3)) == whole(3, "fallback")


def test_an_expired_start_serves_while_a_kept_snapshot_names_it_as_parent() -> None:
    assert decide(facts(*HISTORY[1:], token=token(1)), no_days) == incremental(1, 3)


@pytest.mark.parametrize("gone", [99, 1], ids=["rolled back", "expired"])
def test_a_start_that_is_gone_falls_back_to_everything_and_says_so(gone: int) -> None:
    assert decide(facts(HISTORY[2], token=token(gone)), lambda *_: days(3)) == whole(3, "fallback")


def test_compaction_and_empty_commits_are_nothing_new() -> None:
    compaction = SourceSnapshot(2, 1, "replace", Volume(50, 5000))
    quiet = facts(append(1, None), compaction, append(3, 2, 0), token=token(1))
    assert decide(quiet, no_days) == NothingNew()


def test_compaction_counts_for_no_bite_and_is_passed_together_with_its_neighbours() -> None:
    compaction = SourceSnapshot(3, 2, "replace", Volume(5000, 10**12))
    history = facts(append(1, None), append(2, 1, 900), compaction, append(4, 3, 900), token=token(1))
    assert decide(history, no_days) == incremental(1, 3)


@pytest.mark.parametrize("operation", ["overwrite", "delete", "something new"])
def test_a_change_by_somebody_unknown_anywhere_ahead_is_refused(operation: str) -> None:
    change = SourceSnapshot(3, 2, operation, Volume(1, 1))
    history = (append(1, None), append(2, 1, 5000), change, append(4, 3))
    assert decide(facts(*history, token=token(1)), no_days) == Refused(change)
    assert decide(facts(*history, token=token(3)), no_days) == incremental(3, 4)
    # In the middle of a first read that is cut by days, the pinned end is the state before the change.
    pinned = facts(*history, token=token(2, last_day=DAY))
    assert decide(pinned, lambda *_: days(1, 1)) == Refused(change)


def test_a_change_whose_token_is_known_is_passed_over() -> None:
    erasure = SourceSnapshot(2, 1, "overwrite", Volume(700, 700), known=True)
    assert decide(facts(append(1, None), erasure, token=token(1)), no_days) == NothingNew()
    history = facts(append(1, None), erasure, append(3, 2, 900), token=token(1))
    assert decide(history, no_days) == incremental(1, 3)


def test_a_first_read_takes_the_table_as_it_is_whoever_changed_it() -> None:
    change = SourceSnapshot(2, 1, "overwrite", Volume(1, 1))
    assert decide(facts(append(1, None), change), lambda *_: days(1)) == whole(2)


@pytest.mark.parametrize("bite", [Volume(20, 10**9), Volume(10**9, 2000)], ids=["records", "bytes"])
def test_a_backlog_is_cut_by_snapshots(bite: Volume) -> None:
    history = (append(1, None), append(2, 1, 10), append(3, 2, 10), append(4, 3, 1))
    assert decide(facts(*history, token=token(1), bite=bite), no_days) == incremental(1, 3)


def test_a_snapshot_bigger_than_a_bite_waits_for_its_own_batches_and_is_cut_by_days() -> None:
    history = (append(1, None), append(2, 1, 10), append(3, 2, 60))
    bite = Volume(25, 10**9)
    assert decide(facts(*history, token=token(1), bite=bite), no_days) == incremental(1, 2)
    asked: list[tuple[int | None, int]] = []

    def volumes(start: int | None, end: int) -> Mapping[date, Volume]:
        asked.append((start, end))
        return days(10, 10, 30, 10)

    last_days: list[date | None] = []
    newest = token(2, 1)
    while isinstance(read := decide(facts(*history, token=newest, bite=bite), volumes), Read):
        last_days.append(read.range.last_day)
        newest = plan_of(read.range).token
    # The third day alone is more than a bite: it is taken whole.
    assert last_days == [DAY + timedelta(days=1), DAY + timedelta(days=2), None]
    assert set(asked) == {(2, 3)}


def test_slices_go_on_where_the_last_token_says_even_when_more_has_arrived() -> None:
    history = (append(1, None, 30), append(2, 1, 5))
    sliced = facts(*history, token=token(1, last_day=DAY), bite=Volume(10, 10**9))
    expected = whole(1, first=DAY + timedelta(days=1), last=DAY + timedelta(days=1))
    assert decide(sliced, lambda *_: days(10, 10, 10)) == expected


def test_a_range_whose_start_expires_between_two_slices_keeps_its_place_in_the_days() -> None:
    sliced = facts(append(8, 7, 30), append(9, 8, 5), token=token(8, start=3, last_day=DAY))
    assert decide(sliced, lambda *_: days(10, 10, 10)) == whole(8, "fallback", first=DAY + timedelta(days=1))


def test_a_range_whose_end_expires_between_two_slices_starts_over() -> None:
    sliced = facts(append(9, 8, 5), token=token(8, start=3, last_day=DAY))
    assert decide(sliced, lambda *_: days(10, 10, 10)) == whole(9, "fallback")


def test_days_without_rows_after_the_last_slice_end_the_range() -> None:
    sliced = facts(append(1, None), append(2, 1, 5), token=token(1, last_day=DAY))
    assert decide(sliced, lambda *_: days(10)) == incremental(1, 2)


OPEN = plan_of(SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"))


def test_an_open_plan_is_replayed_exactly_though_more_has_arrived() -> None:
    assert decide(facts(*HISTORY, token=token(1), open_plan=OPEN), no_days) == Replay(OPEN)


def test_an_open_plan_that_is_published_only_has_to_be_finished() -> None:
    assert decide(facts(*HISTORY, token=OPEN.token, open_plan=OPEN), no_days) == Finish(OPEN)


@pytest.mark.parametrize("reached", [token(3), None], ids=["target ahead", "target rolled back"])
def test_an_open_plan_that_does_not_begin_where_the_target_stands_is_not_replayed(
    reached: Token | None,
) -> None:
    decision = decide(facts(*HISTORY, token=reached, open_plan=OPEN), lambda *_: days(3))
    assert decision == (NothingNew() if reached else whole(3))


def test_an_open_plan_whose_source_was_rolled_back_is_not_replayed() -> None:
    decision = decide(facts(append(1, None), append(7, 1), token=token(1), open_plan=OPEN), no_days)
    assert decision == incremental(1, 7)


def test_an_open_slice_of_another_range_is_not_replayed() -> None:
    next_day = DAY + timedelta(days=1)
    other = plan_of(SourceRange(start_snapshot=None, end_snapshot=2, first_day=next_day, reason="first_read"))
    sliced = facts(*HISTORY, token=token(1, last_day=DAY), open_plan=other)
    assert decide(sliced, lambda *_: days(1, 1)) == whole(1, first=next_day)


def test_an_open_first_read_is_not_replayed_once_somebody_changed_the_table() -> None:
    change = SourceSnapshot(2, 1, "delete", Volume())
    first = plan_of(SourceRange(start_snapshot=None, end_snapshot=1, reason="first_read"))
    decision = decide(facts(append(1, None), change, open_plan=first), lambda *_: days(1))
    assert decision == whole(2)


class World(RuleBasedStateMachine):
    """A source, a target and a job that crashes: batches are applied to sets of (snapshot, day) cells."""

    def __init__(self) -> None:
        super().__init__()
        self.source: list[tuple[SourceSnapshot, Rows]] = []
        self.expired = 0
        self.target: list[tuple[Token, list[tuple[int, int]]]] = []
        self.checkpoint: int | None = None
        self.open_plan: BatchPlan | None = None
        self.undisturbed = True
        self.idle = False
        self.ids = iter(range(1, 10**6))

    @initialize(records=st.integers(1, 12))
    def choose_bite(self, records: int) -> None:
        self.bite = Volume(records, 10**9)

    @rule(rows=st.dictionaries(st.integers(0, 5), st.integers(1, 9), max_size=4))
    def append(self, rows: Rows) -> None:
        self._commit("append", rows)

    @rule(rows=st.just({0: 100}))
    def compact(self, rows: Rows) -> None:
        self._commit("replace", rows)

    @rule(count=st.integers(1, 3))
    def expire(self, count: int) -> None:
        self.expired = min(self.expired + count, max(len(self.source) - 1, 0))

    @rule(count=st.integers(1, 3))
    def roll_source_back(self, count: int) -> None:
        if len(self.source) - count > self.expired:
            del self.source[-count:]
            self.undisturbed = False

    @rule(count=st.integers(1, 3))
    def roll_target_back(self, count: int) -> None:
        del self.target[-count:]

    @rule()
    def lose_state(self) -> None:
        self.checkpoint = self.open_plan = None

    @rule(crash=st.sampled_from(("nowhere", "before publishing", "before closing")))
    def run(self, crash: str) -> None:
        match decide(self._facts(), self._day_volumes):
            case NothingNew():
                self.open_plan, self.idle = None, True
                return
            case Refused():
                raise AssertionError("nobody unknown was here")
            case Finish(plan):
                self._close(plan)
                return
            case Replay(plan):
                assert plan == self.open_plan
            case Read(source):
                self._check_bite(source)
                plan = plan_of(source)
        self.open_plan = plan
        if crash != "before publishing":
            self.undisturbed &= plan.reason != "fallback"
            self.target.append((plan.token, self._cells(plan)))
            if crash == "nowhere":
                self._close(plan)

    @invariant()
    def nothing_is_read_twice(self) -> None:
        if self.undisturbed:
            assert not [cell for cell, times in self._published().items() if times > 1]

    def teardown(self) -> None:
        """However it was cut and disturbed: run on, and every row of the source has arrived."""
        self.idle = False
        for _ in range(1000):
            self.run("nowhere")
            if self.idle:
                break
        assert self.idle, "the batches never come to an end"
        there = {(snapshot.snapshot_id, day) for snapshot, rows in self._appends() for day in rows}
        published = self._published()
        assert there <= set(published)
        self.nothing_is_read_twice()

    def _commit(self, operation: str, rows: Rows) -> None:
        parent = self.source[-1][0].snapshot_id if self.source else None
        volume = Volume(sum(rows.values()), sum(rows.values()))
        self.source.append((SourceSnapshot(next(self.ids), parent, operation, volume), rows))

    def _facts(self) -> Facts:
        return Facts(
            tuple(snapshot for snapshot, _ in self.source[self.expired :]),
            self.target[-1][0] if self.target else None,
            True,
            self.checkpoint,
            self.open_plan,
            self.bite,
        )

    def _close(self, plan: BatchPlan) -> None:
        self.open_plan = None
        self.checkpoint = plan.end_snapshot if plan.completes else self.checkpoint

    def _appends(self) -> list[tuple[SourceSnapshot, Rows]]:
        return [(snapshot, rows) for snapshot, rows in self.source if snapshot.operation == "append"]

    def _inside(self, start: int | None, end: int) -> list[tuple[SourceSnapshot, Rows]]:
        kept = {snapshot.snapshot_id for snapshot, _ in self.source[self.expired :]}
        assert end in kept
        assert start is None or start in kept | {self.source[self.expired][0].parent_id}
        ids = [snapshot.snapshot_id for snapshot, _ in self.source]
        first = ids.index(start) + 1 if start else 0
        inside = set(ids[first : ids.index(end) + 1])
        return [(snapshot, rows) for snapshot, rows in self._appends() if snapshot.snapshot_id in inside]

    def _day_volumes(self, start: int | None, end: int) -> Mapping[date, Volume]:
        counts: Counter[int] = Counter()
        for _, rows in self._inside(start, end):
            counts.update(rows)
        return {DAY + timedelta(days=day): Volume(count, count) for day, count in counts.items()}

    def _cells(self, source: SourceRange) -> list[tuple[int, int]]:
        return [
            (snapshot.snapshot_id, day)
            for snapshot, rows in self._inside(source.start_snapshot, source.end_snapshot)
            for day in rows
            if source.takes(DAY + timedelta(days=day))
        ]

    def _check_bite(self, source: SourceRange) -> None:
        volumes = self._day_volumes(source.start_snapshot, source.end_snapshot)
        taken = {day: volume.records for day, volume in volumes.items() if source.takes(day)}
        assert taken, "a batch without rows"
        assert sum(taken.values()) <= self.bite.records or len(taken) == 1

    def _published(self) -> Counter[tuple[int, int]]:
        return Counter(cell for _, cells in self.target for cell in cells)


World.TestCase.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
TestWorld = World.TestCase


def test_bites_never_reorder_the_snapshots_of_a_backlog() -> None:
    history = tuple(append(number, number - 1 or None, 3) for number in range(1, 30))
    newest, ends = token(1), [1]
    while isinstance(read := decide(facts(*history, token=newest, bite=Volume(7, 10**9)), no_days), Read):
        assert read.range.start_snapshot == ends[-1]
        ends.append(read.range.end_snapshot)
        newest = plan_of(read.range).token
    assert ends == list(range(1, 30, 2))
