"""How commands speak: data on stdout, talk on stderr, JSON on request, colour only where it is wanted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

FINE, FINDINGS, USAGE = 0, 1, 2


def data(value: Any) -> None:
    """A result for a program: one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def line(text: str = "") -> None:
    """A result for a person: one line, never reflowed, so that it can be searched and piped."""
    sys.stdout.write(text + "\n")


def talk(text: str) -> None:
    """Progress, advice and everything else that is not the result."""
    sys.stderr.write(text + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows for a person, aligned and no wider than the terminal."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        drawn.add_row(*("" if cell is None else str(cell) for cell in row))
    Console(file=sys.stdout, highlight=False, markup=False).print(drawn)


def records(rows: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    """Rows with the same keys, as JSON or as a table."""
    if as_json:
        data(list(rows))
    elif rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
