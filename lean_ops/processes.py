"""Facts about other processes of this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process still does anything. A zombie does not: it is dead, and its parent has not looked."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with suppress(OSError):  # only Linux has the file, and the process may be gone by now
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    return not Path("/proc/self").exists()
