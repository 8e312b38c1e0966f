"""What the payloads of a batch hold that their table does not know yet, found without keeping any of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lean_ops.payload.columns import may_be_column
from lean_ops.payload.flatten import Kind, ParseFault, leaves
from lean_ops.payload.mould import Fit, Mould
from lean_ops.payload.periods import is_period

# The first documents of a new topic teach the mould the rest; random keys must not compile one per batch.
_MOULDS = 16


@dataclass(frozen=True)
class KnownShape:
    """The payload columns' paths with the kinds seen so far, and how many new paths could become columns."""

    kinds: tuple[tuple[str, tuple[Kind, ...]], ...] = ()
    room: int = 0
    period_path: str | None = None


@dataclass
class Findings:
    """The kinds seen by path, for columns and for the first `room` new paths in sorted order.

    `overflow` says that there were others; `nonsense_periods` counts records whose period is no month.
    """

    kinds: dict[str, set[Kind]] = field(default_factory=dict)
    overflow: bool = False
    nonsense_periods: int = 0


class Survey:
    """Reads payloads chunk by chunk and remembers what it found."""

    def __init__(self, known: KnownShape) -> None:
        self._known = {path: set(kinds) for path, kinds in known.kinds}
        self._room = known.room
        self._period_path = known.period_path
        self._new: dict[str, set[Kind]] = {}
        self._beyond: str | None = None
        self._moulds = 0
        self._found = Findings()
        self._learn()

    def read(self, payloads: Sequence[bytes | None]) -> list[tuple[int, ParseFault]]:
        """The faulty payloads of a chunk, by row. Payloads must be UTF-8."""
        fit = self._mould.fit(payloads)
        self._read_fitting(fit)
        faults = []
        learned = False
        for row in sorted(fit.misfits):
            found = leaves(payloads[row])
            if isinstance(found, ParseFault):
                faults.append((row, found))
                continue
            for path, leaf in found.items():
                learned |= self._note(path, leaf.kind)
                if path == self._period_path:
                    self._found.nonsense_periods += not is_period(leaf.text)
        if learned and self._moulds < _MOULDS:
            self._learn()
        return faults

    def findings(self) -> Findings:
        """What was found so far."""
        self._keep_first()
        return Findings(self._found.kinds | self._new, self._found.overflow, self._found.nonsense_periods)

    def _learn(self) -> None:
        learned = {path: self._known[path] | self._found.kinds.get(path, set()) for path in self._known}
        self._mould = Mould(learned | self._new, exact=False)
        self._moulds += 1
        self._pending = [path for path in self._known if learned[path] - self._found.kinds.get(path, set())]

    def _read_fitting(self, fit: Fit) -> None:
        self._pending = [path for path in self._pending if not self._see(fit, path)]
        if self._period_path is not None:
            values = self._mould.values(fit, self._period_path)
            for row in fit.misfits:
                values[row] = None
            self._found.nonsense_periods += sum(
                count for value, count in Counter(values).items() if _is_nonsense(value)
            )

    def _see(self, fit: Fit, path: str) -> bool:
        """Whether nothing more can be learned about a column from documents that fit."""
        kinds = self._mould.kinds(fit, path)
        if kinds:
            self._found.kinds.setdefault(path, set()).update(kinds)
        return self._known[path] <= self._found.kinds.get(path, set())

    def _note(self, path: str, kind: Kind) -> bool:
        """Remember a leaf; whether it was news."""
        if path in self._known:
            kinds = self._found.kinds.setdefault(path, set())
        elif path in self._new:
            kinds = self._new[path]
        elif not self._room or (self._beyond and path > self._beyond) or not may_be_column(path):
            self._found.overflow = True
            return False
        else:
            kinds = self._new.setdefault(path, set())
            if len(self._new) > 2 * self._room:
                self._keep_first()
        if kind in kinds:
            return False
        kinds.add(kind)
        return True

    def _keep_first(self) -> None:
        if len(self._new) > self._room:
            first = sorted(self._new)[: self._room]
            self._new = {path: self._new[path] for path in first}
            self._beyond = first[-1]
            self._found.overflow = True


def _is_nonsense(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and is_period(value))
