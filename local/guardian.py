"""Outlives the supervisor by a moment: once it is gone, so are its children, and only then is the home free.

The supervisor writes to our standard input: `+7` once the process group 7 of a child exists, `-7` once it is
gone. The end of that input is the supervisor's end, orderly or not. We also hold the lock of the home folder,
so that no new stack starts among the ruins.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from lean_ops.processes import is_alive

GRACE_SECONDS = 60.0


def main() -> None:
    """Wait for the end of the supervisor, then end what it left behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups = set[int]()
    for line in sys.stdin:
        change, group = line[0], int(line[1:])
        groups = groups | {group} if change == "+" else groups - {group}
    _signal(groups, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while any(map(is_alive, groups)) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal(groups, signal.SIGKILL)


def _signal(groups: set[int], number: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, number)


if __name__ == "__main__":
    main()
