"""How commands speak: data on stdout, talk on stderr, JSON on request, colour only where it is wanted."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lean_ops.errors import ConfigError, LeanOpsError, UsageError

if TYPE_CHECKING:
    from lean_ops.config.findings import Finding

FINE, FINDINGS, USAGE = 0, 1, 2
_PIPED_WIDTH = 1000


def never_fail_to_encode() -> None:
    """A stream that knows ASCII only gets escapes for the rest, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def data(value: Any) -> None:
    """A result for a program: one JSON document, in ASCII, whatever the stream can encode."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def line(text: str = "") -> None:
    """A result for a person: one line, never reflowed, so that it can be searched and piped."""
    sys.stdout.write(text + "\n")


def talk(text: str) -> None:
    """Progress, advice and everything else that is not the result."""
    sys.stderr.write(text + "\n")


def findings(found: Sequence[Finding], *, kind: str, fine: int, as_json: bool) -> int:
    """What a check found, and how many of a kind are fine; returns the exit code."""
    if as_json:
        data({f"{kind}s": fine, "findings": [finding.as_dict() for finding in found]})
    else:
        for finding in found:
            line(str(finding))
    talk(f"{fine} {kind}{'s' * (fine != 1)} fine, {len(found)} finding{'s' * (len(found) != 1)}")
    return FINDINGS if found else FINE


def failure(error: LeanOpsError, *, as_json: bool) -> int:
    """Why a command could not do its work, and the next command; returns the exit code."""
    if as_json:
        found = error.findings if isinstance(error, ConfigError) else ()
        listed = [finding.as_dict() for finding in found]
        data({"error": str(error), "next_step": error.next_step, "findings": listed})
    talk(f"lean-ops: {error}")
    if error.next_step:
        talk(f"  next: {error.next_step}")
    return USAGE if isinstance(error, UsageError) else FINDINGS


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows for a person: aligned and no wider than the terminal; for a pipe, a line a row.

    Where not even the headers fit side by side, every row is a block of `column  value` lines.
    """
    from rich.console import Console
    from rich.table import Table

    from lean_ops.config.findings import printable

    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    fits = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(
        file=sys.stdout,
        highlight=False,
        markup=False,
        width=None if fits else _PIPED_WIDTH,
        # rich's own NO_COLOR keeps bold; whoever sets it wants no escape codes at all.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
    if sum(len(column) + 2 for column in columns) > console.width:
        for row in cells:
            _block(columns, row)
        return
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")  # a cut name is a name that cannot be copied
    for row in cells:
        drawn.add_row(*row)
    console.print(drawn)


def _block(columns: Sequence[str], row: Sequence[str]) -> None:
    width = max(map(len, columns))
    for column, cell in zip(columns, row, strict=True):
        line(f"{column:<{width}}  {cell}")
    line()


def records(rows: Sequence[Mapping[str, object]], *, as_json: bool, none: str = "") -> None:
    """Rows with the same keys, as JSON or as a table; `none` tells a person why there are no rows."""
    if as_json:
        data(list(rows))
    elif rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    elif none:
        talk(none)
