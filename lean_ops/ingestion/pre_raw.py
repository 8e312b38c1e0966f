"""The balance upstream of RAW: whatever was received is in RAW, was suppressed, is an open error, or was given up.

    distinct RAW + suppressed duplicates + open dlq_errors + open firehose_errors + closed = received

It holds once queues and buffers are empty, as far as `received` and `suppressed` are certain. By how much they
may be off is itself counted, and so is how many messages could be missing behind that (`unseen`): that share
has to be within a tolerance which the asker states.

`received` is best counted by somebody else: the source's own metric, the sender. A duplicate that nobody
suppressed is then a second row in RAW, so there may be as many too few as RAW has rows too many; one that was
suppressed by a process that then died is suppressed and counted again, which `repeated` bounds.

Otherwise it is what the processor took, plus what is open or closed in `dlq_errors`. A process that dies after it has
delivered a batch and before it has counted it leaves messages in RAW that are not counted: they return as
`redelivered`, or in `dlq_errors` although RAW has them. A message that was taken twice (24 hours later, by two
processes at once) is counted twice and is two rows of RAW. Delivered but `unremembered`, it may be so without
RAW showing it: its second row may have failed on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOLERANCE = 0.01  # of what was received


@dataclass(frozen=True)
class PreRawBalance:
    """One topic's books, in messages. `received` may be understated or overstated by this much."""

    received: int
    raw: int
    suppressed: int
    open_dlq: int
    open_firehose: int
    closed: int
    understated: int
    overstated: int

    @property
    def difference(self) -> int:
        """Negative: messages are missing, or still on their way."""
        held = self.open_dlq + self.open_firehose + self.closed
        return self.raw + self.suppressed + held - self.received

    @property
    def unseen(self) -> int:
        """How many messages could be missing, if all that may be uncounted was received."""
        return max(self.understated - self.difference, 0)

    @property
    def balanced(self) -> bool:
        """Whether the numbers can all be true."""
        return -self.overstated <= self.difference <= self.understated

    def certain(self, tolerance: float) -> bool:
        """Whether at most this share of what was received could be missing without showing."""
        return self.unseen <= tolerance * self.received


@dataclass(frozen=True)
class Holdings:
    """What a topic's tables hold: rows and distinct messages of RAW, open and closed ones of the error tables.

    A message is in the last place it has reached; `dlq_delivered` are those of `dlq_errors` that went beyond it.
    """

    raw_rows: int
    raw: int
    open_dlq: int
    open_firehose: int
    closed_dlq: int
    closed_firehose: int
    dlq_delivered: int


def balance(totals: Mapping[str, int], holdings: Holdings, received: int | None = None) -> PreRawBalance:
    """The books, from the processor's lifetime counts, the tables, and the source's count if there is one."""
    doubled = holdings.raw_rows - holdings.raw
    if received is None:
        received = totals["received"] + holdings.open_dlq + holdings.closed_dlq
        understated = totals["redelivered"] + holdings.dlq_delivered
        overstated = totals["unremembered"] + doubled
    else:
        understated, overstated = totals["repeated"], doubled
    return PreRawBalance(
        received,
        holdings.raw,
        totals["suppressed"],
        holdings.open_dlq,
        holdings.open_firehose,
        holdings.closed_dlq + holdings.closed_firehose,
        understated,
        overstated,
    )
