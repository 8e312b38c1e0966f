"""What is still on its way in the local stack: messages in queues, bytes in Firehose's buffer."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.clients import client, local_stack
from lean_ops.runtime import Runtime

_DEPTHS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
# Loopback never goes through a proxy, whatever the variables say.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Depth:
    """The messages of one queue that nobody has finished with."""

    queue: str
    waiting: int
    in_flight: int
    delayed: int
    polled: bool

    @property
    def total(self) -> int:
        return self.waiting + self.in_flight + self.delayed

    def __str__(self) -> str:
        stopped = "" if self.polled else "; its event source mapping is disabled"
        return f"{self.queue}: {self.waiting} waiting, {self.in_flight} in flight, {self.delayed} delayed{stopped}"


@dataclass(frozen=True)
class Backlog:
    """Everything between a producer and RAW at one moment."""

    queues: tuple[Depth, ...]
    buffered_bytes: int

    @property
    def total(self) -> int:
        return sum(depth.total for depth in self.queues) + self.buffered_bytes

    def stuck(self) -> list[str]:
        """What is left, in words."""
        words = [str(depth) for depth in self.queues if depth.total]
        return [*words, *([f"firehose: {self.buffered_bytes} bytes buffered"] if self.buffered_bytes else [])]


def gauge(runtime: Runtime) -> Callable[[], Backlog]:
    """A function that measures the backlog, with clients that are made only once."""
    sqs, aws_lambda = client(runtime, "sqs"), client(runtime, "lambda")
    status = f"{local_stack(runtime).endpoint('firehose')}/status"

    def measure() -> Backlog:
        # Queues first, then the buffer behind them: what moves on meanwhile is met again further down.
        pages = sqs.get_paginator("list_queues").paginate(
            QueueNamePrefix=runtime.names.prefix, PaginationConfig={"PageSize": 1000}
        )
        urls = [url for page in pages for url in page.get("QueueUrls", [])]
        polled = _polled(aws_lambda)
        depths = tuple(_depth(sqs, url, polled) for url in sorted(urls))
        with _direct.open(status) as answer:
            return Backlog(depths, json.load(answer)["waiting_bytes"])

    return measure


def _polled(aws_lambda: Any) -> set[str]:
    pages = aws_lambda.get_paginator("list_event_source_mappings").paginate()
    mappings = [mapping for page in pages for mapping in page["EventSourceMappings"]]
    return {each["EventSourceArn"].rpartition(":")[2] for each in mappings if each["State"] == "Enabled"}


def _depth(sqs: Any, url: str, polled: Iterable[str]) -> Depth:
    queue = url.rpartition("/")[2]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(_DEPTHS))["Attributes"]
    waiting, in_flight, delayed = (int(found[name]) for name in _DEPTHS)
    return Depth(queue, waiting, in_flight, delayed, queue in polled)


def drain(measured: Callable[[], Backlog], *, patience_seconds: float, pause_seconds: float = 0.3) -> Backlog:
    """Wait until nothing is left twice in a row, or until the rest has not shrunk for so long. Returns it.

    Twice, because what Firehose refuses goes back into a queue that was already looked at.
    """
    empty, least, since = 0, float("inf"), time.monotonic()
    while True:
        backlog = measured()
        empty = empty + 1 if backlog.total == 0 else 0
        if empty == 2:
            return backlog
        if backlog.total < least:
            least, since = backlog.total, time.monotonic()
        if time.monotonic() - since > patience_seconds:
            return backlog
        time.sleep(pause_seconds)
