"""One batch in a process of its own, which kills itself at a place that it is told: `python -m`, for the tests."""

from __future__ import annotations

import os
import signal
import sys

from lean_ops import runtime as runtimes
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import client
from lean_ops.config.topics import TopicSpec
from spark_jobs.session import build_session
from tests.spark.faulty import Interrupted, Place
from tests.spark.streams import RULES
from tests.spark.world import Lake, World


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(topic: str, step: str, when: str) -> None:
    runtime = runtimes.from_variables(os.environ)
    catalog = open_catalog(runtime.environment, runtime.home)
    lake = Lake(runtime, catalog, client(runtime, "dynamodb"), build_session(runtime))
    World(lake, TopicSpec.model_validate_json(topic), RULES).run(Interrupted(Place(int(step), when), die))


if __name__ == "__main__":
    main(*sys.argv[1:])
