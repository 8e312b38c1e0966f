"""Starts a courier for each topic, and ends them all on SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread

from bridge.courier import Courier
from bridge.flow import Limits
from bridge.health import HealthServer
from bridge.queue import CONNECTION, SENDERS, TopicQueue
from bridge.source import Subscription
from lean_ops import runtime as runtimes
from lean_ops.aws.clients import client
from lean_ops.errors import LeanOpsError
from lean_ops.repository import Repository, find_root, load_topic, load_topics
from lean_ops.topics import TopicSpec

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
    return _run(couriers, arguments.listen, stopping)


def _run(couriers: Sequence[Courier], listen: tuple[str, int], stopping: Event) -> int:
    # Daemons, because the time to stop is limited; what is cut off is delivered again.
    threads = {c: Thread(target=c.run, name=c.topic, daemon=True) for c in couriers}
    health = HealthServer(
        listen, unhealthy=lambda: _unhealthy(threads), unready=lambda: _unready(couriers, stopping)
    )
    for thread in threads.values():
        thread.start()
    LOG.info("carrying %d topics, listening on %s", len(couriers), health.url)
    stopping.wait()
    LOG.info("stopping")
    deadline = time.monotonic() + STOP_SECONDS
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    unsettled = [courier.topic for courier, thread in threads.items() if thread.is_alive()]
    LOG.info("stopped%s", f", unsettled: {', '.join(unsettled)}" if unsettled else "")
    return 1 if unsettled else 0


def _unhealthy(threads: Mapping[Courier, Thread]) -> dict[str, str]:
    dead = {c.topic: "its courier is dead" for c, thread in threads.items() if not thread.is_alive()}
    return {c.topic: "its courier is stuck" for c in threads if c.stuck()} | dead


def _unready(couriers: Sequence[Courier], stopping: Event) -> dict[str, str]:
    troubles = {courier.topic: courier.trouble for courier in couriers if courier.trouble}
    return {"": "stopping"} if stopping.is_set() else troubles


def _couriers(arguments: argparse.Namespace, stopping: Event) -> list[Courier]:
    repository = Repository(find_root(arguments.root))
    runtime = (
        runtimes.from_repository(repository, arguments.env, os.environ)
        if arguments.env
        else runtimes.from_variables(os.environ)
    )
    limits = Limits(arguments.max_messages, arguments.max_bytes, arguments.lease_seconds)
    sqs = client(runtime, "sqs", CONNECTION)
    s3 = client(runtime, "s3", CONNECTION)
    senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="sender")
    return [
        Courier(
            topic,
            Subscription(path, lease_seconds=limits.lease_seconds),
            TopicQueue(topic, runtime.names, sqs=sqs, s3=s3, senders=senders, stopping=stopping),
            limits,
            stopping=stopping,
            clock=time.monotonic,
        )
        for topic, path in subscriptions(_topics(repository, arguments.topics), arguments.project).items()
    ]


def _topics(repository: Repository, chosen: Sequence[str]) -> list[TopicSpec]:
    if chosen:
        return [load_topic(repository, topic) for topic in chosen]
    # One bad file stops the start, not a running bridge: a rollout keeps the old one.
    return [spec for spec in load_topics(repository).checked().values() if spec.source.subscription]


def subscriptions(topics: Sequence[TopicSpec], project: str | None) -> dict[str, str]:
    """The full name of each topic's subscription."""
    paths: dict[str, str] = {}
    for spec in topics:
        name = spec.source.subscription
        if name is None:
            raise LeanOpsError(
                f"topic {spec.topic!r} has no subscription",
                next_step=f"set source.subscription in topics/{spec.topic}.yaml",
            )
        if "/" not in name and not project:
            raise LeanOpsError(
                f"the project of subscription {name!r} is not known",
                next_step="add --project, or set GOOGLE_CLOUD_PROJECT",
            )
        paths[spec.topic] = name if "/" in name else f"projects/{project}/subscriptions/{name}"
    if not paths:
        raise LeanOpsError("no topic has a subscription", next_step="set source.subscription in a topic")
    return paths


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    limits = Limits()
    parser = argparse.ArgumentParser("bridge", description="Carries Pub/Sub messages to SQS.")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository, or a folder inside it")
    parser.add_argument("--env", help=f"an environment; without it, {runtimes.ENVIRONMENT_VARIABLE} has it")
    parser.add_argument("--topics", nargs="+", default=(), help="default: all that have a subscription")
    parser.add_argument("--project", default=os.environ.get("GOOGLE_CLOUD_PROJECT"))
    parser.add_argument("--listen", type=_address, default=("127.0.0.1", 8080), metavar="HOST:PORT")
    parser.add_argument("--max-messages", type=int, default=limits.messages, help="held for one topic")
    parser.add_argument("--max-bytes", type=int, default=limits.bytes, help="held for one topic")
    parser.add_argument("--lease-seconds", type=int, default=limits.lease_seconds)
    return parser.parse_args(argv)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    sys.exit(main())
