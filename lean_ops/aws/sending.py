"""Sends files of envelopes: to a topic's queue as they are, or in bulk to Firehose in the processor's form."""

from __future__ import annotations

import itertools
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lean_ops.aws import ingestion
from lean_ops.aws.patience import Patience
from lean_ops.ingestion import envelope, raw_record
from lean_ops.ingestion.envelope import Code, Rejection
from lean_ops.ingestion.ports import Tally
from lean_ops.resources import DELIVERY, QUEUES
from lean_ops.runtime import Runtime

# A bulk load is faster than its consumer: "slow down" is answered by slowing down, for minutes if need be.
_BULK = Patience(attempts=300, seconds=300.0, longest_pause=2.0)
_LINES_AT_ONCE = 100


@dataclass(frozen=True)
class Sent:
    """What became of the lines so far; the refused ones, counted by the code of their reason, were not sent."""

    sent: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def refused(self) -> int:
        return self.reasons.total()

    def plus(self, lines: int, refusals: Iterable[str]) -> Sent:
        refused = Counter(refusals)
        return Sent(self.sent + lines - refused.total(), self.reasons + refused)


def to_queue(runtime: Runtime, topic: str, lines: Iterable[bytes]) -> Iterator[Sent]:
    """Every line that SQS can carry is a body, broken or not: what to do with it is the processor's business."""
    queues, so_far = ingestion.queues(runtime, _BULK), Sent()
    for chunk in _chunks(lines, _LINES_AT_ONCE):
        found = [_body(line) for line in chunk]
        refusals = [code for code in found if isinstance(code, Code)]
        unsent = queues.send(topic, [body for body in found if not isinstance(body, Code)])
        so_far = so_far.plus(len(chunk), [*refusals, *unsent.values()])
        yield so_far


def to_firehose(
    runtime: Runtime, topic: str, lines: Iterable[bytes], clock: Callable[[], float] = time.time
) -> Iterator[Sent]:
    """The processor's output form, without its checks for duplicates. Broken envelopes are refused.

    What Firehose acknowledged is counted as the processor would have, or RAW would hold more than was received.
    """
    stream, books, so_far = ingestion.delivery_stream(runtime, _BULK), ingestion.books(runtime, _BULK), Sent()
    for chunk in _chunks(lines, DELIVERY.max_batch_records):
        records = [_record(topic, line, clock()) for line in chunk]
        sound = [record for record in records if not isinstance(record, Rejection)]
        unsent = stream.put(sound)
        if len(sound) > len(unsent):
            books.count(topic, Tally(accepted=len(sound) - len(unsent)), clock())
        refusals = [record.code for record in records if isinstance(record, Rejection)]
        so_far = so_far.plus(len(chunk), [*refusals, *unsent.values()])
        yield so_far


def _record(topic: str, line: bytes, now: float) -> bytes | Rejection:
    parsed = envelope.parse(
        line.decode("utf-8", "surrogateescape"), fallback_id=str(uuid.uuid4()), sent_time=int(now * 1_000_000)
    )
    return parsed if isinstance(parsed, Rejection) else raw_record.encode(topic, parsed, int(now * 1000))


def _body(line: bytes) -> str | Code:
    """SQS carries nothing but UTF-8, and no more than its limit."""
    if len(line) > QUEUES.max_message_bytes:
        return Code.TOO_LARGE
    try:
        return line.decode()
    except UnicodeDecodeError:
        return Code.NOT_UTF8


def _chunks(lines: Iterable[bytes], count: int) -> Iterator[list[bytes]]:
    full = (line for line in (each.rstrip(b"\r\n") for each in lines) if line)
    while chunk := list(itertools.islice(full, count)):
        yield chunk
