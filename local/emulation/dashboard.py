"""The verdict for a person, one statement a line, or for a program."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import fill

from local.emulation.comparison import Check

_WIDTH = 80


def show(checks: Sequence[Check], seconds: Mapping[str, float], *, as_json: bool) -> None:
    """The dashboard; without checks, the phases were all there is to tell."""
    failed = sum(not check.passed for check in checks)
    if as_json:
        told = {"seconds": {phase: round(took, 1) for phase, took in seconds.items()}}
        listed = [check._asdict() for check in checks]
        answer = told | {"checks": listed, "passed": len(checks) - failed, "failed": failed}
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
        return
    for topic, of_topic in groupby(checks, key=lambda check: check.topic):
        sys.stdout.write(f"\n{topic}\n")
        for check in of_topic:
            _line(f"  {'ok  ' if check.passed else 'FAIL'}  {check.statement}")
            if check.detail:
                _line(f"        {check.detail}")
    if checks:
        sys.stdout.write(f"\nverify: {len(checks) - failed} passed, {failed} failed\n")


def _line(text: str) -> None:
    # A count stays on the line of what it counts.
    kept = re.sub(r": (?=\d)", ":\N{NO-BREAK SPACE}", text)
    lines = fill(kept, _WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)
    sys.stdout.write(lines.replace("\N{NO-BREAK SPACE}", " ") + "\n")
