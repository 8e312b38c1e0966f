"""What changed in a topic's payloads: columns that appear, change their kind or stay away.

Pure: the state of the last published batch and what this batch saw give the next state and the events to log.
A batch that is run again from the same state gives the same events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, Self

from lean_ops.payload.flatten import Kind

Seen = Mapping[str, Collection[Kind]]


class Action(StrEnum):
    """What happened to a column."""

    ADDED = "ADDED"
    TYPE_CHANGED = "TYPE_CHANGED"
    REMOVED = "REMOVED"


@dataclass(frozen=True)
class DriftEvent:
    """One change; `old` and `new` name kinds of JSON values."""

    column: str
    path: str
    action: Action
    old: str = ""
    new: str = ""
    detail: str = ""


@dataclass(frozen=True)
class ColumnState:
    """The kinds a column has ever had, the day it was last seen, and whether its absence was reported."""

    kinds: frozenset[Kind]
    last_seen: date
    removed: bool = False


@dataclass(frozen=True)
class DriftState:
    """The state of a topic's columns by name. Days, not moments: most batches then change nothing."""

    columns: Mapping[str, ColumnState] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            name: {
                "kinds": sorted(state.kinds),
                "last_seen": state.last_seen.isoformat(),
                **({"removed": True} if state.removed else {}),
            }
            for name, state in sorted(self.columns.items())
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(
            {
                name: ColumnState(
                    frozenset(state["kinds"]),
                    date.fromisoformat(state["last_seen"]),
                    state.get("removed", False),
                )
                for name, state in document.items()
            }
        )


def observe(
    state: DriftState,
    columns: Mapping[str, str],
    *,
    added: Collection[str],
    seen: Seen,
    day: date,
    removed_after: int,
) -> tuple[DriftState, tuple[DriftEvent, ...]]:
    """The next state and the events of a batch.

    `columns` maps the names of all payload columns, with those `added` by this batch, to their paths; `seen`
    maps the names that had a value in this batch to the kinds of their values; `day` is that of the batch.
    """
    following: dict[str, ColumnState] = {}
    events: list[DriftEvent] = []
    for name, path in sorted(columns.items()):
        kinds = frozenset(seen.get(name, ()))
        # Without a state (lost, or older than the column) there is nothing to compare with: start from here.
        before = state.columns.get(name) or ColumnState(kinds, day)
        after = _after(before, kinds, day, removed_after if seen else None)
        following[name] = after
        if name in added:
            events.append(DriftEvent(name, path, Action.ADDED, new=_listed(kinds)))
        else:
            events += _changes(name, path, before, after)
    return DriftState(following), tuple(events)


def _after(before: ColumnState, kinds: frozenset[Kind], day: date, removed_after: int | None) -> ColumnState:
    if kinds:
        return ColumnState(before.kinds | kinds, max(day, before.last_seen))
    # A batch that saw nothing at all says nothing about any column.
    away = removed_after is not None and (day - before.last_seen).days >= removed_after
    return ColumnState(before.kinds, before.last_seen, before.removed or away)


def _changes(name: str, path: str, before: ColumnState, after: ColumnState) -> Iterator[DriftEvent]:
    known = _listed(before.kinds)
    if after.removed and not before.removed:
        yield DriftEvent(name, path, Action.REMOVED, old=known, detail=f"last seen on {before.last_seen}")
    if before.removed and not after.removed:
        detail = f"seen again, for the first time since {before.last_seen}"
        yield DriftEvent(name, path, Action.ADDED, old=known, new=_listed(after.kinds), detail=detail)
    if before.kinds and after.kinds != before.kinds:
        new = _listed(after.kinds - before.kinds)
        yield DriftEvent(name, path, Action.TYPE_CHANGED, old=known, new=new)


def _listed(kinds: frozenset[Kind]) -> str:
    return ",".join(sorted(kinds))
