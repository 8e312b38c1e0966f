"""Payloads as columns of text, and what they hold that their table does not know.

A table grows while it is filled: a row that needs a column which may yet be added is set aside, and everything else
is tabulated at once. So nearly every payload is read once only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from lean_ops.payload.columns import may_be_column
from lean_ops.payload.flatten import Kind, Leaf, ParseFault, leaves
from lean_ops.payload.mould import Mould
from lean_ops.payload.periods import is_period

# The first documents of a new topic teach the mould the rest; random keys must not compile one per batch.
_MOULDS = 16

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True)
class KnownShape:
    """The payload columns' paths with the kinds seen so far, and where else a leaf can go.

    So many new paths (`room`) may become columns; others go to `_overflow`, if the table has that column.
    """

    kinds: tuple[tuple[str, tuple[Kind, ...]], ...] = ()
    room: int = 0
    overflow: bool = False
    key_path: str | None = None
    period_path: str | None = None


@dataclass(frozen=True)
class Texts:
    """Texts by path, one per payload; leaves without a column as JSON; the rows that have neither."""

    columns: dict[str, list[str | None]]
    overflow: list[str | None]
    faults: dict[int, ParseFault] = field(default_factory=dict)
    set_aside: set[int] = field(default_factory=set)


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
        self._known = known
        self._columns = {path: set(kinds) for path, kinds in known.kinds}
        self._keys = {path for path in (known.key_path, known.period_path) if path is not None}
        self._new: dict[str, set[Kind]] = {}
        self._beyond: str | None = None
        self._moulds = 0
        self._found = Findings()
        self._learn()

    def read(self, payloads: Sequence[bytes | None]) -> Texts:
        """The texts of a chunk. Payloads must be UTF-8."""
        moulded = self._mould.read(payloads)
        none: list[str | None] = [None] * len(payloads)
        texts = Texts(
            {path: moulded.texts.get(path) or none.copy() for path in {*self._columns, *self._keys}},
            none.copy(),
        )
        news = False
        for path, kinds in moulded.kinds.items():
            if kinds:
                news |= self._note(path, kinds)
            if kinds and path not in self._columns:
                rows = enumerate(moulded.texts[path])
                texts.set_aside.update(row for row, text in rows if text is not None)
        for row in sorted(moulded.misfits):
            news |= self._read_misfit(payloads[row], row, texts)
        self._judge_periods(texts)
        if news and self._moulds < _MOULDS:
            self._learn()
        return texts

    def findings(self) -> Findings:
        """What was found so far."""
        self._keep_first()
        return Findings(self._found.kinds | self._new, self._found.overflow, self._found.nonsense_periods)

    def _learn(self) -> None:
        seen = {path: kinds | self._found.kinds.get(path, set()) for path, kinds in self._columns.items()}
        self._mould = Mould(seen | self._new)
        self._moulds += 1

    def _read_misfit(self, payload: bytes | None, row: int, texts: Texts) -> bool:
        """Put one payload into the texts; whether it brought news."""
        found = leaves(payload)
        if isinstance(found, ParseFault):
            texts.faults[row] = found
            return False
        news = False
        for path, leaf in found.items():
            news |= self._note(path, {leaf.kind})
            if path in texts.columns:
                texts.columns[path][row] = leaf.text
        rest = {path: leaf for path, leaf in found.items() if path not in self._columns}
        if rest and self._fits_into_overflow(rest):
            texts.overflow[row] = _encode({path: leaf.text for path, leaf in rest.items()}).decode()
        elif rest:
            texts.set_aside.add(row)
        return news

    def _fits_into_overflow(self, rest: dict[str, Leaf]) -> bool:
        return self._known.overflow and not any(path in self._new for path in rest)

    def _note(self, path: str, kinds: set[Kind]) -> bool:
        """Remember leaves; whether they were news."""
        if path in self._columns:
            seen = self._found.kinds.setdefault(path, set())
        elif path in self._new:
            seen = self._new[path]
        elif not self._known.room or (self._beyond and path > self._beyond) or not may_be_column(path):
            self._found.overflow = True
            return False
        else:
            seen = self._new.setdefault(path, set())
            if len(self._new) > 2 * self._known.room:
                self._keep_first()
        if kinds <= seen:
            return False
        seen |= kinds
        return True

    def _keep_first(self) -> None:
        if len(self._new) > self._known.room:
            first = sorted(self._new)[: self._known.room]
            self._new = {path: self._new[path] for path in first}
            self._beyond = first[-1]
            self._found.overflow = True

    def _judge_periods(self, texts: Texts) -> None:
        if self._known.period_path is not None:
            counts = Counter(texts.columns[self._known.period_path])
            self._found.nonsense_periods += sum(
                count for text, count in counts.items() if text is not None and not is_period(text)
            )
