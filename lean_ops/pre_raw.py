"""The balance upstream of RAW: whatever was received is in RAW, was suppressed, or is an open error.

    distinct RAW + suppressed duplicates + open dlq_errors + open firehose_errors = received

It holds once queues and buffers are empty. `received` is best counted by somebody else (the source's own
metric, the sender). Without that it is what the processor took plus what is open in `dlq_errors`; this can
understate by what a dying process had delivered and not yet counted, which `redelivered` bounds from above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PreRawBalance:
    """One topic's books; every number counts messages."""

    received: int
    raw: int
    suppressed: int
    open_dlq: int
    open_firehose: int
    tolerance: int

    @property
    def difference(self) -> int:
        """Negative: messages are missing, or still on their way."""
        return self.raw + self.suppressed + self.open_dlq + self.open_firehose - self.received

    @property
    def balanced(self) -> bool:
        return 0 <= self.difference <= self.tolerance


def balance(
    totals: Mapping[str, int], *, raw: int, open_dlq: int, open_firehose: int, received: int | None = None
) -> PreRawBalance:
    """The books of a topic, from the processor's lifetime counts and what the tables hold."""
    if received is None:
        received, tolerance = totals["received"] + open_dlq, totals["redelivered"]
    else:
        tolerance = 0
    return PreRawBalance(received, raw, totals["suppressed"], open_dlq, open_firehose, tolerance)
