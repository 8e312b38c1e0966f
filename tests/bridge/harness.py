"""The world around the bridge, for real: a Pub/Sub server, an SQS, and the bridge as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from google.pubsub_v1.types import PubsubMessage, Subscription
from werkzeug.serving import make_server

PROJECT = "tests"


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Poll until something holds; say what did not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


# Done by the child itself: a `preexec_fn` would fork, and gRPC, which this process has open, dies of that.
RUN_WHILE_PARENT_LIVES = """
import runpy, sys
from lean_ops.parent_death import signal_at_death_of
signal_at_death_of(int(sys.argv.pop(1)))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def start(
    module: str, *arguments: str, variables: Mapping[str, str], stderr: int | None = None
) -> subprocess.Popen[str]:
    """A Python process that cannot outlive this one."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN_WHILE_PARENT_LIVES, str(os.getpid()), module, *arguments],
        env={**os.environ, **variables},
        stderr=stderr,
        text=True,
    )


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of a WSGI application that runs in this process."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class PubSub:
    """A Pub/Sub server, seen by publishers and administrators."""

    address: str
    channel: grpc.Channel

    def create(self, topic: str) -> None:
        """A topic with a subscription that keeps the order within a key."""
        path = f"projects/{PROJECT}/topics/{topic}"
        self._publisher.create_topic(name=path)
        SubscriberClient(transport=SubscriberGrpcTransport(channel=self.channel)).create_subscription(
            Subscription(
                name=f"projects/{PROJECT}/subscriptions/{topic}-lean-ops",
                topic=path,
                enable_message_ordering=True,
                ack_deadline_seconds=10,
            )
        )

    def publish(self, topic: str, messages: Sequence[PubsubMessage]) -> list[str]:
        """Publish in order; the ids that the server gave."""
        path = f"projects/{PROJECT}/topics/{topic}"
        runs = [messages[start : start + 1000] for start in range(0, len(messages), 1000)]
        answers = [self._publisher.publish(topic=path, messages=run) for run in runs]
        return [message_id for answer in answers for message_id in answer.message_ids]

    @property
    def _publisher(self) -> PublisherClient:
        return PublisherClient(transport=PublisherGrpcTransport(channel=self.channel))


@dataclass
class Drain:
    """Takes everything out of a queue, in the queue's order, while the bridge is at work."""

    sqs: Any
    queue_url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [body["message_id"] for body in self.bodies]

    def first_occurrences(self) -> list[dict[str, Any]]:
        """The bodies without redeliveries, in the order in which SQS got them."""
        return list({body["message_id"]: body for body in reversed(self.bodies)}.values())[::-1]

    @contextmanager
    def running(self) -> Iterator[Drain]:
        done = Event()
        thread = Thread(target=self._run, args=(done,))
        thread.start()
        try:
            yield self
        finally:
            done.set()
            thread.join()

    def _run(self, done: Event) -> None:
        while not done.is_set():
            answer = self.sqs.receive_message(
                QueueUrl=self.queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            received = answer.get("Messages", ())
            self.bodies += [json.loads(message["Body"]) for message in received]
            entries = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(received)
            ]
            if entries:
                self.sqs.delete_message_batch(QueueUrl=self.queue_url, Entries=entries)


class Bridge:
    """The bridge, as a process of its own."""

    def __init__(self, root: Path, variables: Mapping[str, str], options: Iterable[str]) -> None:
        place = ("--root", str(root), "--env", "local", "--project", PROJECT, "--listen", "127.0.0.1:0")
        self.log: list[str] = []
        self.process = start("bridge", *place, *options, variables=variables, stderr=subprocess.PIPE)
        self._reader = Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._reader.join()
        sys.stderr.writelines(self.log)  # shown if the test fails

    @property
    def address(self) -> str:
        eventually(lambda: self._listening() is not None, "the bridge listens")
        return str(self._listening())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def get(self, path: str) -> tuple[int, str]:
        with closing(HTTPConnection(self.address, timeout=5)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metric(self, name: str, topic: str) -> float:
        line = rf'^lean_ops_bridge_{name}{{topic="{topic}"}} (\S+)$'
        found = re.search(line, self.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _listening(self) -> str | None:
        assert self.process.poll() is None, "".join(self.log)
        return next((found[1] for line in self.log if (found := re.search(r"on http://(\S+)", line))), None)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)


@dataclass(frozen=True)
class World:
    """One topic, from its publisher to its queue."""

    topic: str
    root: Path
    pubsub: PubSub
    sqs: Any
    s3: Any
    queue_url: str
    variables: dict[str, str]

    def publish(self, messages: Sequence[PubsubMessage]) -> list[str]:
        return self.pubsub.publish(self.topic, messages)

    def bridge(self, *options: str, **variables: str) -> Bridge:
        return Bridge(self.root, {**self.variables, **variables}, options)

    def drain(self) -> Drain:
        return Drain(self.sqs, self.queue_url)
