"""How much may be outstanding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.envelope import Message

FIRST_WINDOW = 16


@dataclass(frozen=True)
class Limits:
    """What one topic may hold at a time, and for how long: memory is at most topics times bytes.

    The lease is how long Pub/Sub waits for a crashed bridge before it delivers again. A round stops starting
    sends after half of it, which leaves the other half for the last send with all its attempts.
    """

    messages: int = 500
    bytes: int = 32 * 1024 * 1024
    lease_seconds: int = 60


def next_window(limits: Limits, window: int, pulled: Sequence[Message]) -> int:
    """How many messages to ask for next.

    A pull is limited by count only, so the count follows the sizes seen last; and it grows from a small first
    window, because before the first pull nothing is known about sizes.
    """
    held = sum(len(message.data) for message in pulled)
    if not held:
        return window
    fitting = limits.bytes * len(pulled) // held
    return max(1, min(limits.messages, 2 * window, fitting))
