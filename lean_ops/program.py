"""The program `lean-ops`. Ctrl-C while it is still being imported ends it without a word, not with a traceback."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imports() -> Iterator[None]:
    """For the imports of a program: an interrupt there is nothing but its end."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)


def main() -> None:
    """Hand over to the command line."""
    with imports():
        from lean_ops.cli import main as command_line  # noqa: PLC0415 (that is the point)
    command_line()
