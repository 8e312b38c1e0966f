"""What was seen in the payloads of a batch: by all its tasks together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lean_ops.payload.flatten import Kind
from lean_ops.payload.survey import Findings


@dataclass(frozen=True)
class Discovered:
    """Kinds of values by path, and how many payloads are broken in which way."""

    kinds: Mapping[str, frozenset[Kind]] = field(default_factory=dict)
    overflow: bool = False
    nonsense_periods: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)


NOTHING = Discovered()


def summarize(findings: Iterable[Findings], faults: Iterable[str] = ()) -> Discovered:
    """What the tasks found, and the codes of the broken payloads."""
    kinds: dict[str, set[Kind]] = defaultdict(set)
    overflow, nonsense = False, 0
    for found in findings:
        for path, each in found.kinds.items():
            kinds[path] |= each
        overflow |= found.overflow
        nonsense += found.nonsense_periods
    frozen = {path: frozenset(each) for path, each in kinds.items()}
    return Discovered(frozen, overflow, nonsense, Counter(faults))
