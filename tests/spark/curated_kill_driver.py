"""One batch of the second hop in a process of its own, which kills itself at a place that it is told: `python -m`."""

from __future__ import annotations

import os
import sys

from lean_ops import runtime as runtimes
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import client
from lean_ops.config.topics import TopicSpec
from spark_jobs.session import build_session
from tests.spark.curated_world import CuratedWorld
from tests.spark.faulty import Interrupted, Place
from tests.spark.kill_driver import die
from tests.spark.world import Lake


def main(topic: str, step: str, when: str) -> None:
    runtime = runtimes.from_variables(os.environ)
    catalog = open_catalog(runtime.environment, runtime.home)
    lake = Lake(runtime, catalog, client(runtime, "dynamodb"), build_session(runtime))
    CuratedWorld(lake, TopicSpec.model_validate_json(topic)).run(Interrupted(Place(int(step), when), die))


if __name__ == "__main__":
    main(*sys.argv[1:])
