"""Ends a process when its parent dies, however the parent dies."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def signal_at_death_of(parent: int, number: int = signal.SIGKILL) -> None:
    """The kernel sends `number` once the thread that started this process is gone; an exec keeps it.

    Only Linux has this. Elsewhere the guardian alone sees to it, a little later.
    """
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    # The parent may have died before the call: then nobody would ever send the signal.
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
