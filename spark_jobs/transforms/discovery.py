"""One pass over the payloads of a batch before anything is written: what is broken, what is new."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lean_ops.payload.flatten import Kind


@dataclass(frozen=True)
class Discovered:
    """What the pass found: kinds of values by path, and how many payloads are broken in which way."""

    kinds: Mapping[str, frozenset[Kind]]
    overflow: bool
    nonsense_periods: int
    faults: Mapping[str, int]


def summarize(rows: Iterable[Mapping[str, Any]]) -> Discovered:
    """The rows of a discovery in numbers, whether they come one by one or grouped."""
    kinds: dict[str, set[Kind]] = defaultdict(set)
    faults: Counter[str] = Counter()
    overflow, nonsense = False, 0
    for row in rows:
        if row["code"] is not None:
            faults[row["code"]] += row["rows"]
        elif row["path"] is not None:
            kinds[row["path"]].add(row["kind"])
        else:
            overflow = overflow or row["overflow"]
            nonsense += row["nonsense"]
    frozen = {path: frozenset(found) for path, found in kinds.items()}
    return Discovered(frozen, overflow, nonsense, dict(faults))
