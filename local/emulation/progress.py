"""Progress for a person: one line a step, what it did and how long it took; on stderr, so that results can be piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_WIDTH = 66


@dataclass
class Note:
    """What a step has to say once it is done."""

    text: str = ""


@dataclass
class Progress:
    """The steps so far. `seconds` adds up by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, phase: str, what: str) -> Iterator[Note]:
        began, note = time.monotonic(), Note()
        shown = sys.stderr.isatty()
        if shown:
            _write(f"{phase:<7} {what} …")
        try:
            yield note
        except BaseException:
            if shown:
                _write("\n")
            raise
        took = time.monotonic() - began
        self.seconds[phase] = self.seconds.get(phase, 0.0) + took
        text = f"{what}: {note.text}" if note.text else what
        _write(("\r\033[K" if shown else "") + f"{phase:<7} {text:<{_WIDTH}} {took:5.1f}s\n")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
