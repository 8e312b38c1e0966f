"""Starts a courier for each topic, and ends them all on SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

from bridge import routes
from bridge.courier import Courier
from bridge.crew import Crew
from bridge.flow import Limits
from bridge.health import HealthServer
from bridge.queue import CONNECTION, SENDERS, TopicQueue
from bridge.source import Subscription
from lean_ops import runtime as runtimes
from lean_ops.aws.clients import client
from lean_ops.config.repository import Repository, find_root
from lean_ops.errors import LeanOpsError

LOG = logging.getLogger("bridge")

# Kubernetes kills after 30 s unless told otherwise.
STOP_SECONDS = 25


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; 0 when everything in flight was settled."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    arguments = _arguments(argv)
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        couriers = _couriers(arguments, stopping)
    except LeanOpsError as error:
        LOG.critical("%s%s", error, f"; next: {error.next_step}" if error.next_step else "")
        return 2
    crew = Crew(couriers, stopping)
    health = HealthServer(arguments.listen, unhealthy=crew.unhealthy, unready=crew.unready)
    crew.start()
    LOG.info("carrying %d topics, listening on %s", len(couriers), health.url)
    stopping.wait()
    LOG.info("stopping")
    unsettled = crew.join(STOP_SECONDS)
    LOG.info("stopped%s", f", unsettled: {', '.join(unsettled)}" if unsettled else "")
    return 1 if unsettled else 0


def _couriers(arguments: argparse.Namespace, stopping: Event) -> list[Courier]:
    repository = Repository(find_root(arguments.root))
    runtime = (
        runtimes.from_repository(repository, arguments.env, os.environ)
        if arguments.env
        else runtimes.from_variables(os.environ)
    )
    paths = routes.subscriptions(routes.load(repository, arguments.topics), arguments.project)
    limits = Limits(arguments.max_messages, arguments.max_bytes, arguments.lease_seconds)
    courier = partial(Courier, limits=limits, stopping=stopping, clock=time.monotonic)
    queue = partial(
        TopicQueue,
        names=runtime.names,
        sqs=client(runtime, "sqs", CONNECTION),
        s3=client(runtime, "s3", CONNECTION),
        senders=ThreadPoolExecutor(SENDERS, thread_name_prefix="sender"),
        stopping=stopping,
        clock=time.monotonic,
    )
    return [
        courier(topic, Subscription(path, lease_seconds=limits.lease_seconds), queue(topic))
        for topic, path in paths.items()
    ]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    limits = Limits()
    parser = argparse.ArgumentParser(
        "python -m bridge",
        description="Carries Pub/Sub messages to SQS.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    option = parser.add_argument
    option("--root", type=Path, default=Path.cwd(), help="the repository, or a folder inside it")
    option("--env", help=f"an environment's name; without it {runtimes.ENVIRONMENT_VARIABLE} holds one")
    option("--topics", nargs="+", default=(), metavar="TOPIC", help="without it all that have a subscription")
    option("--project", default=os.environ.get("GOOGLE_CLOUD_PROJECT"), help="of the subscriptions")
    option("--listen", type=_address, default="127.0.0.1:8080", help="HOST:PORT for health and metrics")
    # A settling call names every message, and Pub/Sub limits it to 512 KiB.
    option("--max-messages", type=_between(1, 1000), default=limits.messages, help="held for one topic")
    option("--max-bytes", type=_between(1, 2**40), default=limits.bytes, help="held for one topic")
    option(
        "--lease-seconds",
        type=_between(10, 600),
        default=limits.lease_seconds,
        help="how long a crash delays what was held",
    )
    return parser.parse_args(argv)


def _between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} to {most}")
        return int(text)

    return number


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
