"""Every minute: circuit breakers move by time, and polling follows them."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from lean_ops import runtime as runtimes
from lean_ops.aws import ingestion
from lean_ops.ingestion.outage import Outage

logger = Logger(service="breaker_controller")


@cache
def _outage() -> Outage:
    return ingestion.outage(runtimes.from_variables(os.environ))


def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
    faults = _outage().tick(time.time())
    if faults:
        logger.warning("breakers that could not be followed; the next minute tries again", faults=faults)
    return {"faults": faults}
