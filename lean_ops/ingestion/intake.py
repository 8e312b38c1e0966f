"""Takes a batch of SQS messages into Firehose: what is asked of whom, in which order, so that none is lost.

1. Look up which messages are known (idempotency over 24 hours; duplicates inside the batch collapse first).
2. Put the others into Firehose, and only those it acknowledged are
3. remembered as delivered. A crash between 2 and 3 makes a duplicate, which FIFO removes later; the other
   order would lose messages.
4. Count, which moves the topic's circuit breaker.
5. Park what a dependency refused when failing it could exhaust its receives: while the breaker is not
   closed, and always at the last receive. A dependency's failure therefore never fills the dead-letter queue.

Whatever is neither delivered, known nor parked is reported as failed, and SQS delivers it again.

`received` counts what was taken for good: accepted + suppressed. When a process dies after step 3 and before
step 4 its messages come back, are found under their own SQS id, and are counted as `redelivered` only. So
`received` understates by `redelivered` at most. It overstates by what is taken twice, which RAW shows as rows
of one message. Both are the tolerance of the pre-RAW balance.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lean_ops.errors import RetryableError
from lean_ops.identity import Identity
from lean_ops.ingestion import envelope, raw_record
from lean_ops.ingestion.breaker import Breaker, State, after_batch, park_delay
from lean_ops.ingestion.envelope import Code, Envelope, Rejection
from lean_ops.ingestion.outage import Outage
from lean_ops.ingestion.ports import Books, Memory, Queue, Receipt, Stream, Tally
from lean_ops.resources import QUEUES


@dataclass(frozen=True, slots=True)
class Delivery:
    """An SQS message as a function receives it; the sent time is in microseconds."""

    sqs_id: str
    body: str
    sent_time: int
    receives: int


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery that can be taken: its envelope, its identity, and its record for Firehose."""

    delivery: Delivery
    envelope: Envelope
    identity: Identity
    record: bytes


@dataclass(frozen=True)
class Result:
    """The SQS ids to report as failed, the counts, and how often each code was the reason."""

    failed: tuple[str, ...]
    tally: Tally
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ports:
    """Everything a batch touches outside this process."""

    memory: Memory
    stream: Stream
    queue: Queue
    books: Books
    outage: Outage


def prepare(topic: str | None, delivery: Delivery, now: float) -> Message | Rejection:
    """The message of a delivery, or why it can never be taken. The same at every attempt."""
    if topic is None:
        return Rejection(Code.UNKNOWN_TOPIC, "the queue's name belongs to no topic")
    try:
        return _prepared(topic, delivery, now)
    except Exception as error:  # noqa: BLE001 - a body that finds a fault of ours must not take others with it
        return Rejection(Code.UNFORESEEN, type(error).__name__)


def _prepared(topic: str, delivery: Delivery, now: float) -> Message | Rejection:
    parsed = envelope.parse(delivery.body, fallback_id=delivery.sqs_id, sent_time=delivery.sent_time)
    if isinstance(parsed, Rejection):
        return parsed
    record = raw_record.encode(topic, parsed, int(now * 1000))
    if isinstance(record, Rejection):
        return record
    return Message(delivery, parsed, Identity(topic, parsed.message_id, parsed.publish_time), record)


def process(topic: str | None, deliveries: Sequence[Delivery], ports: Ports, now: float) -> Result:
    """Take one topic's batch."""
    prepared = [(delivery, prepare(topic, delivery, now)) for delivery in deliveries]
    rejected = {item.sqs_id: each.code for item, each in prepared if isinstance(each, Rejection)}
    messages = [(each.identity.key, each) for _, each in prepared if isinstance(each, Message)]
    if topic is None or not messages:
        return Result(tuple(rejected), Tally(rejected=len(rejected)), Counter(rejected.values()))
    attempt = _attempt(topic, messages, ports, now)
    tally = _tally(messages, attempt, rejected=len(rejected))
    breaker, uncounted = _count(topic, tally, attempt, ports, now)
    refused = [message for key, message in messages if key not in attempt.receipts]
    failed = _park(refused, breaker, ports)
    reasons = Counter(rejected.values()) + Counter(attempt.refusals.values())
    tally = replace(tally, parked=len(refused) - len(failed), uncounted=uncounted)
    return Result((*rejected, *failed), tally, reasons)


@dataclass(frozen=True)
class _Attempt:
    """What steps 1 to 3 achieved, by key: a message without a receipt is refused."""

    receipts: Mapping[str, Receipt] = field(default_factory=dict)
    new: frozenset[str] = frozenset()
    refusals: Mapping[str, str] = field(default_factory=dict)
    breaker: Breaker | None = None
    remembered: bool = True


def _attempt(topic: str, messages: Sequence[tuple[str, Message]], ports: Ports, now: float) -> _Attempt:
    first: dict[str, Message] = {}
    for key, message in messages:
        first.setdefault(key, message)
    try:
        breaker = ports.books.read(topic)
        if breaker.state is State.OPEN:
            return _Attempt(breaker=breaker)
        known = ports.memory.recall(list(first), now)
    except RetryableError as error:
        return _Attempt(refusals=dict.fromkeys(first, str(error)))
    new = [key for key in first if key not in known]
    refused = ports.stream.put([first[key].record for key in new])
    delivered = {key: _receipt(first[key]) for index, key in enumerate(new) if index not in refused}
    try:
        ports.memory.remember(delivered, now)
        remembered = True
    except RetryableError:
        remembered = False  # delivered all the same: a later duplicate will pass, and fall to FIFO
    refusals = {new[index]: code for index, code in refused.items()}
    return _Attempt({**known, **delivered}, frozenset(delivered), refusals, breaker, remembered)


def _receipt(message: Message) -> Receipt:
    digest = hashlib.sha256(message.envelope.payload_text.encode()).hexdigest()
    return Receipt(message.delivery.sqs_id, digest[:16])


def _tally(messages: Sequence[tuple[str, Message]], attempt: _Attempt, *, rejected: int) -> Tally:
    counts: Counter[str] = Counter(rejected=rejected)
    for key, message in messages:
        receipt = attempt.receipts.get(key)
        if receipt is None:
            counts["refused"] += 1
        elif receipt.sqs_id != message.delivery.sqs_id:
            counts["suppressed"] += 1
            counts["conflicting"] += receipt.payload != _receipt(message).payload
            counts["repeated"] += message.delivery.receives > 1
        elif key in attempt.new:
            counts["accepted"] += 1
            counts["retimed"] += message.envelope.retimed
        else:
            counts["redelivered"] += 1
    return Tally(**counts, unremembered=0 if attempt.remembered else len(attempt.new))


def _count(topic: str, tally: Tally, attempt: _Attempt, ports: Ports, now: float) -> tuple[Breaker, int]:
    """Count a batch and move the breaker. Returns the breaker, and how many messages could not be counted.

    Never fails the batch: its messages are where they should be.
    """
    breaker = attempt.breaker or Breaker(topic)
    if breaker.state is State.OPEN:
        return breaker, 0
    try:
        breaker = ports.books.count(topic, tally, now)
    except RetryableError:
        return breaker, tally.received
    return _moved(breaker, ports, now), 0


def _moved(breaker: Breaker, ports: Ports, now: float) -> Breaker:
    following = after_batch(breaker, now)
    if following is None:
        return breaker
    try:
        won = ports.books.move(breaker, following)
    except RetryableError:
        return breaker
    if won:
        # Moved it is, whoever fails to follow: the controller makes that good, and the batch must be parked.
        with contextlib.suppress(RetryableError):
            ports.outage.follow(following)
    return following


def _park(refused: Sequence[Message], breaker: Breaker, ports: Ports) -> list[str]:
    """Re-send with the identity written down, then report success. Returns the SQS ids that stay failed."""
    closed = breaker.state is State.CLOSED
    parking = [each for each in refused if not closed or each.delivery.receives >= QUEUES.max_receives]
    if not parking:
        return [each.delivery.sqs_id for each in refused]
    bodies = [each.envelope.resolved_body() for each in parking]
    unsent = ports.queue.send(breaker.topic, bodies, delay_seconds=park_delay(breaker))
    parked = {each.delivery.sqs_id for index, each in enumerate(parking) if index not in unsent}
    return [each.delivery.sqs_id for each in refused if each.delivery.sqs_id not in parked]
