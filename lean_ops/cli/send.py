"""`lean-ops send`: messages from a file into a topic."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lean_ops.cli import options, output

_REDRAW_SECONDS = 0.5


class Entry(StrEnum):
    """Where messages enter."""

    SQS = "sqs"
    FIREHOSE = "firehose"


def send(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    file: Annotated[Path, typer.Argument(help="One envelope per line; - is standard input.")],
    *,
    entry: Annotated[
        Entry, typer.Option(help="firehose is for bulk: nothing is checked for duplicates.")
    ] = Entry.SQS,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Send every line of a file as one message. Exit code 1 when some could not be sent."""
    from lean_ops.aws.sending import Sent, to_firehose, to_queue
    from lean_ops.config.repository import load_topic
    from lean_ops.errors import NotFoundError

    load_topic(options.repository(root), topic)
    runtime = options.runtime(root, env)
    deliver = to_queue if entry is Entry.SQS else to_firehose
    began, drawn, state = time.monotonic(), 0.0, Sent()
    if str(file) != "-" and not file.is_file():
        raise NotFoundError(
            f"there is no file {file}", next_step="name a file with one envelope per line, or -"
        )
    with typer.open_file(str(file), "rb") as lines:
        for state in deliver(runtime, topic, lines):
            if sys.stderr.isatty() and time.monotonic() - drawn > _REDRAW_SECONDS:
                drawn = time.monotonic()
                sys.stderr.write(f"\r{state.sent} sent, {state.sent / (drawn - began):.0f}/s")
    if drawn:
        sys.stderr.write("\r\033[K")
    if as_json:
        facts = {"topic": topic, "entry": entry.value, "sent": state.sent, "refused": state.refused}
        output.data(facts | {"reasons": state.reasons})
    else:
        reasons = ", ".join(f"{count} {code}" for code, count in sorted(state.reasons.items()))
        output.line(f"{topic}: {state.sent} sent, {state.refused} refused" + f" ({reasons})" * bool(reasons))
    raise typer.Exit(output.FINDINGS if state.refused else output.FINE)
