"""`lean-ops emulate`: days of production on the local stack. Its code is in the room `local/`, as the stack's is."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lean_ops.cli import local, options, output
from lean_ops.cli.send import Entry

# Airflow's own database takes most of a minute to make, and holds nothing that an emulation compares.
KEPT = ("airflow", "logs", "postgres", "spark.sock", "stack.lock")


class Phase(StrEnum):
    """What to run; `full` is all of it, from a clean start."""

    CLEAN = "clean"
    DAY1 = "day1"
    SCHEMA = "schema"
    DAY2 = "day2"
    DAY4 = "day4"
    VERIFY = "verify"
    FULL = "full"


def emulate(
    phase: Annotated[Phase, typer.Argument(help="full is all of them, in this order.")],
    *,
    records: Annotated[int, typer.Option(min=10, help="Messages of day 1; the other days follow it.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same messages.")] = 1,
    entry: Annotated[Entry, typer.Option(help="firehose is for bulk: SQS is slow to emulate.")] = Entry.SQS,
    injection: Annotated[
        Path | None, typer.Option(help="Shares of what goes wrong; default local/emulation/injection.yaml.")
    ] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Play days of production, and compare the tables with the truth.

    Starts a stack with Airflow, and stops it at the end, unless one is running.
    """
    if phase in (Phase.CLEAN, Phase.FULL):
        _clean(root, env)
    if phase is Phase.CLEAN:
        return
    command = [sys.executable, "-m", "local.emulation", phase.value, "--env", env, "--entry", entry.value]
    command += ["--root", str(options.repository(root).root), f"--records={records}", f"--seed={seed}"]
    command += ([f"--injection={injection}"] if injection else []) + ["--json"] * as_json
    os.execv(sys.executable, command)  # noqa: S606 (no shell wanted)


def _clean(root: Path | None, env: str) -> None:
    """The lake, the queues, the state and the truth of the last emulation; Airflow's runs stay."""
    removed = local.remove(local.emulated(root, env).home, keep=KEPT)
    output.talk(f"{'clean':<7} {removed} entries of the last emulation removed")
