"""Decides what the next batch of a hop reads: facts about the source and the target in, a decision out.

The target's own newest token says what is done; the checkpoint is asked only when expiry has cut the target's
history off. So rolling a table back rewinds it by itself, and lost state loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from lean_ops.batch.batch_plan import BatchPlan, Reason, SourceRange, Token

# Snapshots that add no rows of their own, or whose rows an incremental read delivers.
_READABLE = frozenset({"append", "replace"})


@dataclass(frozen=True)
class Volume:
    """How much there is to read."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Volume) -> Volume:
        return Volume(self.records + other.records, self.bytes + other.bytes)

    def exceeds(self, limit: Volume) -> bool:
        return self.records > limit.records or self.bytes > limit.bytes


@dataclass(frozen=True)
class SourceSnapshot:
    """A snapshot of the source. `known`: its token names a change that readers need not see (an erasure)."""

    snapshot_id: int
    parent_id: int | None
    operation: str
    added: Volume
    known: bool = False

    @property
    def news(self) -> Volume:
        """What an incremental read delivers of it: compaction writes files anew, but brings no rows."""
        return self.added if self.operation == "append" else Volume()

    @property
    def foreign(self) -> bool:
        """Whether it changed rows behind the reader's back; Iceberg would skip it without a word."""
        return self.operation not in _READABLE and not self.known


# The rows of a range by publish day: asked for only when a range has to be cut by days.
DayVolumes = Callable[[int | None, int], Mapping[date, Volume]]


@dataclass(frozen=True)
class Facts:
    """What is known before a batch. `snapshots` is the ancestry of the source's head, oldest first.

    `target_whole`: the target's ancestry reaches back to its first snapshot, so having no token means that
    nothing was ever published.
    """

    snapshots: Sequence[SourceSnapshot]
    token: Token | None
    target_whole: bool
    checkpoint: int | None
    open_plan: BatchPlan | None
    bite: Volume


@dataclass(frozen=True)
class NothingNew:
    """No row is waiting. An open plan, if there is one, no longer fits the tables: discard it."""


@dataclass(frozen=True)
class Refused:
    """The source was changed by somebody unknown; a person must decide before its rows are read on."""

    snapshot: SourceSnapshot


@dataclass(frozen=True)
class Finish:
    """The open plan is published already: only its books are left to close."""

    plan: BatchPlan


@dataclass(frozen=True)
class Replay:
    """The open plan was not published: it is done again, exactly."""

    plan: BatchPlan


@dataclass(frozen=True)
class Read:
    """A new range to plan a batch for. An open plan, if there is one, no longer fits the tables: discard it."""

    range: SourceRange


Decision = NothingNew | Refused | Finish | Replay | Read


@dataclass(frozen=True)
class _Position:
    """Where the target stands: what it has not seen begins after `start`, or anywhere when that is None.

    While the range up to `end` is being cut by days, only its days from `first_day` on are left.
    """

    start: int | None
    end: int | None = None
    first_day: date | None = None
    reason: Reason = "incremental"


def decide(facts: Facts, day_volumes: DayVolumes) -> Decision:
    """The next thing to do for a hop."""
    plan, token = facts.open_plan, facts.token
    if plan is not None and token is not None and plan.batch_id == token.batch_id:
        return Finish(plan)
    if not facts.snapshots:
        return NothingNew()
    position = _position(facts)
    pinned = position.start or position.end
    # Anywhere ahead, not only in the next bite: who removed rows may have meant that nobody reads them.
    foreign = _foreign_after(facts.snapshots, pinned) if pinned else None
    if foreign is not None:
        return Refused(foreign)
    if plan is not None and _fits(plan, position, facts.snapshots):
        return Replay(plan)
    found = _next_range(facts, position, day_volumes)
    return NothingNew() if found is None else Read(found)


def _position(facts: Facts) -> _Position:
    token = facts.token
    if token is None:
        if facts.target_whole:
            return _Position(None, reason="first_read")
        return _readable(facts.snapshots, _Position(facts.checkpoint, reason="fallback"))
    if token.last_day is None:
        return _readable(facts.snapshots, _Position(token.end_snapshot))
    if token.end_snapshot not in _ids(facts.snapshots):
        return _Position(None, reason="fallback")
    rest = _Position(
        token.start_snapshot, token.end_snapshot, token.last_day + timedelta(days=1), token.reason
    )
    return _readable(facts.snapshots, rest)


def _readable(snapshots: Sequence[SourceSnapshot], position: _Position) -> _Position:
    """The position, if what comes after it can still be told apart; else the same from the very first row on."""
    if position.start is None:
        return position
    # Iceberg reads on from an expired snapshot for as long as a kept one names it as its parent.
    if position.start in _ids(snapshots) or position.start == snapshots[0].parent_id:
        return replace(position, reason="incremental")
    return replace(position, start=None, reason="fallback")


def _fits(plan: BatchPlan, position: _Position, snapshots: Sequence[SourceSnapshot]) -> bool:
    """Whether an open plan still begins where the target stands, and its source is still as it was."""
    begins = (plan.start_snapshot, plan.first_day) == (position.start, position.first_day)
    ends = position.end in (None, plan.end_snapshot)
    exists = plan.end_snapshot in _ids(_after(snapshots, position.start))
    return begins and ends and exists and _foreign_after(snapshots, plan.end_snapshot) is None


def _next_range(facts: Facts, position: _Position, day_volumes: DayVolumes) -> SourceRange | None:
    if position.start is not None and position.end is None:
        return _bite_of_snapshots(facts, position.start, day_volumes)
    end = position.end or facts.snapshots[-1].snapshot_id
    rest = SourceRange(
        start_snapshot=position.start,
        end_snapshot=end,
        first_day=position.first_day,
        reason=position.reason,
    )
    slice_ = bite_of_days(rest, day_volumes(position.start, end), facts.bite)
    if slice_ is None and position.end is not None:
        return _bite_of_snapshots(facts, end, day_volumes)
    return slice_


def _bite_of_snapshots(facts: Facts, start: int, day_volumes: DayVolumes) -> SourceRange | None:
    """As many snapshots as make a bite, but at least one with rows: one that is too big is cut by days."""
    taken, end = Volume(), start
    for snapshot in _after(facts.snapshots, start):
        if taken.records and (taken + snapshot.news).exceeds(facts.bite):
            break
        taken, end = taken + snapshot.news, snapshot.snapshot_id
    if not taken.records:
        return None
    whole = SourceRange(start_snapshot=start, end_snapshot=end, reason="incremental")
    if taken.exceeds(facts.bite):
        return bite_of_days(whole, day_volumes(start, end), facts.bite)
    return whole


def bite_of_days(rest: SourceRange, volumes: Mapping[date, Volume], bite: Volume) -> SourceRange | None:
    """As many days of what is left as make a bite, in ascending order, but at least one."""
    taken, last_day = Volume(), None
    for day in sorted(day for day, volume in volumes.items() if volume.records and rest.takes(day)):
        if last_day is not None and (taken + volumes[day]).exceeds(bite):
            return rest.model_copy(update={"last_day": last_day})
        taken, last_day = taken + volumes[day], day
    return rest if last_day is not None else None


def _after(snapshots: Sequence[SourceSnapshot], start: int | None) -> Sequence[SourceSnapshot]:
    for index, snapshot in enumerate(snapshots):
        if snapshot.snapshot_id == start:
            return snapshots[index + 1 :]
    return snapshots


def _foreign_after(snapshots: Sequence[SourceSnapshot], start: int) -> SourceSnapshot | None:
    return next((snapshot for snapshot in _after(snapshots, start) if snapshot.foreign), None)


def _ids(snapshots: Sequence[SourceSnapshot]) -> set[int]:
    return {snapshot.snapshot_id for snapshot in snapshots}
