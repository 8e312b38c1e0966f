"""The command `lean-ops emulate`: the phases that were asked for, on one stack, and one clear line for a failure."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from lean_ops import runtime as runtimes
from lean_ops.config.repository import Repository
from lean_ops.errors import LeanOpsError
from local.emulation import dashboard, injection
from local.emulation.comparison import Check
from local.emulation.ledger import Ledger, Setting
from local.emulation.phases import Emulation
from local.emulation.progress import Progress
from local.emulation.stack import stack
from local.emulation.traffic import anchor_of
from local.emulation.verdict import verify

PHASES = ("day1", "schema", "day2", "day4", "verify")
_INTERRUPTED = 130


def emulate(options: argparse.Namespace) -> int:
    """Run the phases that were asked for; the exit code is verify's."""
    repository, progress = Repository(options.root), Progress()
    runtime = runtimes.from_repository(repository, options.env, os.environ)
    ledger, shares = Ledger(runtime.home / "emulation"), injection.load(options.injection)
    emulation = Emulation(runtime, repository, shares, ledger, progress)
    phases = PHASES if options.phase == "full" else (options.phase,)
    ledger.require_turn(phases[0])  # before the minute that a stack takes to start
    checks: list[Check] = []
    with stack(runtime, options.root, progress):
        for phase in phases:
            match phase:
                case "day1":
                    ledger.begin(_setting(options))
                    emulation.day("day1")
                case "schema":
                    emulation.schema()
                case "day2" | "day4":
                    emulation.day(phase)
                case "verify":
                    with progress.step("verify", "tables against the truth"):
                        checks += verify(runtime, repository, ledger)
    dashboard.show(checks, progress.seconds, as_json=options.json)
    return int(not all(check.passed for check in checks))


def _setting(options: argparse.Namespace) -> Setting:
    today = datetime.now(UTC).date()
    return Setting(seed=options.seed, anchor=anchor_of(today), records=options.records, entry=options.entry)


def main(arguments: list[str] | None = None) -> int:
    """One clear line for whatever stands in the way."""
    parser = argparse.ArgumentParser(prog="lean-ops emulate")
    parser.add_argument("phase", choices=(*PHASES, "full"))
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--entry", choices=("sqs", "firehose"), required=True)
    parser.add_argument("--injection", type=Path, default=injection.DEFAULT_FILE)
    parser.add_argument("--json", action="store_true")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_INTERRUPTED))
    # A shell that starts us in the background has us ignore it, and it would be ignored all the way down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return emulate(parser.parse_args(arguments))
    except LeanOpsError as error:
        sys.stderr.write(f"lean-ops: {error}\n" + (f"  next: {error.next_step}\n" if error.next_step else ""))
        return 1
    except OSError as error:  # a full disk, first of all
        sys.stderr.write(f"lean-ops: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("lean-ops: interrupted, and everything is stopped\n")
        return _INTERRUPTED
