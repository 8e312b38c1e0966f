"""Points in time as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lean_ops.errors import UsageError
from lean_ops.identity import to_micros

_AGO = re.compile(r"(\d{1,6})([mhd])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


def moment(text: str, now: float) -> int:
    """Microseconds since the epoch: a date, a time (UTC unless it says otherwise), or `24h` for a while ago."""
    ago = _AGO.fullmatch(text)
    if ago:
        return int((now - int(ago[1]) * _SECONDS[ago[2]]) * 1_000_000)
    try:
        stated = datetime.fromisoformat(text)
        return to_micros(stated if stated.tzinfo else stated.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is no point in time",
            next_step="write it like 2026-11-18, 2026-11-18T08:00Z, 90m, 24h or 7d",
        ) from error
