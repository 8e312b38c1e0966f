"""Payloads as columns of text: the rows of a Standardized table, before its envelope is added."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from lean_ops.payload.flatten import ParseFault, leaves
from lean_ops.payload.mould import Mould

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True)
class Texts:
    """Texts by path, one per payload; leaves without a column as JSON; the rows that could not be read."""

    columns: dict[str, list[str | None]]
    overflow: list[str | None]
    faults: dict[int, ParseFault] = field(default_factory=dict)

    @property
    def has_overflow(self) -> bool:
        return any(self.overflow)


def tabulate(
    payloads: Sequence[bytes | None], mould: Mould, columns: Collection[str], keys: Collection[str] = ()
) -> Texts:
    """The texts of the columns' paths, and of keys that may have no column. Payloads must be UTF-8."""
    fit = mould.fit(payloads)
    texts = Texts({path: mould.texts(fit, path) for path in {*columns, *keys}}, [None] * len(payloads))
    for row in sorted(fit.misfits):
        found = leaves(payloads[row])
        if isinstance(found, ParseFault):
            texts.faults[row] = found
            continue
        for path, leaf in found.items():
            if path in texts.columns:
                texts.columns[path][row] = leaf.text
        rest = {path: leaf.text for path, leaf in found.items() if path not in columns}
        if rest:
            texts.overflow[row] = _encode(rest).decode()
    return texts
