"""Messages per second through the whole local stack, and the memory of its processes while they pass.

    python -m benchmarks.ingest_path [--messages 5000] [--records 200000]

Wall time on a shared machine says little, so the rate per second of the stack's own CPU is printed as well.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import psutil

from lean_ops.aws import backlog
from lean_ops.aws.sending import Sent, to_firehose, to_queue
from tests.e2e.stack import LocalStack, running

_PAYLOAD = json.dumps(
    {"orderId": "o", "amount": 10.25, "accounting": {"period": "2026-11"}, "note": "x" * 300}
)


@dataclass
class Watch:
    """CPU seconds and memory of the stack's processes; the emulator is moto, not ours."""

    stack: LocalStack
    seen: list[float] = field(default_factory=list)
    _stop: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        emulator = self.stack.facts.children["aws"]
        # Those of now: the process of a function that is called for the first time meanwhile is no growth.
        self._ours = [process for process in self._processes() if process.pid != emulator]
        self._thread = Thread(target=self._sample, daemon=True)
        self._thread.start()

    def cpu_seconds(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self._processes())

    def memory_mb(self) -> float:
        """Of Firehose and the functions, without the emulator."""
        return sum(process.memory_info().rss for process in self._ours) / 2**20

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(1.0):
            self.seen.append(self.memory_mb())

    def _processes(self) -> list[psutil.Process]:
        supervisor = psutil.Process(self.stack.facts.pid)
        return [supervisor, *supervisor.children(recursive=True)]


@dataclass(frozen=True)
class Passage:
    """How a number of messages passed."""

    count: int
    seconds: float
    cpu_seconds: float
    memory_mb: list[float]

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def growth(self) -> float:
        """How much more memory the last quarter used than the second: the first one warms up."""
        quarter = max(len(self.memory_mb) // 4, 1)
        early, late = self.memory_mb[quarter : 2 * quarter], self.memory_mb[-quarter:]
        return max(late) / max(early) - 1 if early and late else 0.0

    def __str__(self) -> str:
        return (
            f"{self.count} in {self.seconds:.1f} s: {self.rate:.0f}/s, {self.count / self.cpu_seconds:.0f} per CPU "
            f"second, memory {min(self.memory_mb):.0f} to {max(self.memory_mb):.0f} MB, late growth {self.growth:+.0%}"
        )


def envelopes(mark: str, count: int) -> Iterator[bytes]:
    for number in range(count):
        moment = f"2026-11-{10 + number % 7}T10:00:00.{number % 1_000_000:06d}Z"
        message = {"message_id": f"{mark}-{number}", "publish_time": moment, "payload": _PAYLOAD}
        yield json.dumps(message).encode()


def through_sqs(stack: LocalStack, count: int) -> Passage:
    """From the first send to the last row in RAW."""
    return _pass(stack, "orders", count, to_queue)


def through_firehose(stack: LocalStack, count: int) -> Passage:
    return _pass(stack, "payments", count, to_firehose)


def _pass(stack: LocalStack, topic: str, count: int, send: Callable[..., Iterator[Sent]]) -> Passage:
    runtime = stack.runtime
    list(to_queue(runtime, topic, envelopes(f"{topic}-warm", 100)))
    stack.drain()
    watch = Watch(stack)
    cpu, began = watch.cpu_seconds(), time.monotonic()
    for _ in send(runtime, topic, envelopes(topic, count)):
        pass
    left = backlog.drain(backlog.gauge(runtime), patience_seconds=120)
    seconds, spent = time.monotonic() - began, watch.cpu_seconds() - cpu
    watch.stop()
    assert left.total == 0, left.stuck()
    query = f"select count(distinct message_id) as n from iceberg_raw_db.{topic}_staging"
    assert stack.sql(query) == [{"n": count + 100}]
    return Passage(count, seconds, spent, watch.seen or [watch.memory_mb()])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--records", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), "local", fast=False) as stack:
        print("SQS to RAW:     ", through_sqs(stack, options.messages))
        print("Firehose to RAW:", through_firehose(stack, options.records))


if __name__ == "__main__":
    main()
