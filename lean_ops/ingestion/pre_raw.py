"""The balance upstream of RAW: whatever was received is in RAW, was suppressed, or is an open error.

    distinct RAW + suppressed duplicates + open dlq_errors + open firehose_errors = received

It holds once queues and buffers are empty, and within a tolerance that is itself counted.

`received` is best counted by somebody else: the source's own metric, the sender. A duplicate that nobody
suppressed is then a second row in RAW, so there may be as many too few as RAW has rows too many; one that was
suppressed by a process that then died is suppressed and counted again, which `repeated` bounds.

Otherwise it is what the processor took, plus what is open in `dlq_errors`. A process that dies after it has
delivered a batch and before it has counted it leaves messages in RAW that are not counted: they return as
`redelivered`, or in `dlq_errors` although RAW has them. A message that was taken twice (24 hours later, by two
processes at once) is counted twice and is two rows of RAW. Delivered but `unremembered`, it may be so without
RAW showing it: its second row may have failed on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PreRawBalance:
    """One topic's books, in messages. `received` may be understated or overstated by this much."""

    received: int
    raw: int
    suppressed: int
    open_dlq: int
    open_firehose: int
    understated: int
    overstated: int

    @property
    def difference(self) -> int:
        """Negative: messages are missing, or still on their way."""
        return self.raw + self.suppressed + self.open_dlq + self.open_firehose - self.received

    @property
    def balanced(self) -> bool:
        return -self.overstated <= self.difference <= self.understated


@dataclass(frozen=True)
class Holdings:
    """What a topic's tables hold: rows and distinct messages of RAW, and open messages of the error tables.

    `dlq_in_raw` are messages of `dlq_errors` that RAW has.
    """

    raw_rows: int
    raw: int
    open_dlq: int
    open_firehose: int
    dlq_in_raw: int


def balance(totals: Mapping[str, int], holdings: Holdings, received: int | None = None) -> PreRawBalance:
    """The books, from the processor's lifetime counts, the tables, and the source's count if there is one."""
    doubled = holdings.raw_rows - holdings.raw
    if received is None:
        received = totals["received"] + holdings.open_dlq
        understated = totals["redelivered"] + holdings.dlq_in_raw
        overstated = totals["unremembered"] + doubled
    else:
        understated, overstated = totals["repeated"], doubled
    return PreRawBalance(
        received,
        holdings.raw,
        totals["suppressed"],
        holdings.open_dlq,
        holdings.open_firehose,
        understated,
        overstated,
    )
