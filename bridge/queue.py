"""One SQS queue: send what may go together, say which receipts are confirmed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import cached_property, partial
from threading import Event
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from bridge import metrics
from bridge.envelope import Message, body, data_url
from bridge.lanes import CALL_BYTES, Parcel, calls
from lean_ops.naming import Names
from lean_ops.resources import OVERSIZE_PREFIX

LOG = logging.getLogger(__name__)

# Before the second and later attempts.
PAUSES = (0.1, 0.4, 1.6)
# No call starts later than this: with the timeout below, a send ends within half a lease even if SQS is silent.
SEND_SECONDS = 20.0
# One attempt a call: which entries to send again, and whether a stop was asked for, is decided here.
CONNECTION = Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 1})
# The pool of connections of one client, and so the useful number of sender threads.
SENDERS = 10


class TopicQueue:
    """The queue of one topic, and the folder for what is too large for it."""

    def __init__(
        self,
        topic: str,
        names: Names,
        *,
        sqs: Any,
        s3: Any,
        senders: Executor,
        stopping: Event,
        clock: Callable[[], float],
    ) -> None:
        self._topic = topic
        self._names = names
        self._sqs = sqs
        self._s3 = s3
        self._senders = senders
        self._stopping = stopping
        self._clock = clock

    def send(self, messages: Iterable[Message]) -> set[str]:
        """Send these, in any order; the receipts of those that SQS has confirmed."""
        waiting = [parcel for message in messages if (parcel := self._parcel(message))]
        call = partial(self._call, last_start=self._clock() + SEND_SECONDS)
        confirmed: set[str] = set()
        for pause in (*PAUSES, None):
            for accepted in self._senders.map(call, calls(waiting)):
                confirmed |= accepted
            waiting = [parcel for parcel in waiting if parcel.message.receipt not in confirmed]
            if not waiting or pause is None or self._stopping.wait(pause):
                break
        return confirmed

    def _call(self, parcels: Sequence[Parcel], *, last_start: float) -> set[str]:
        if self._stopping.is_set() or self._clock() >= last_start:
            return set()
        accepted = self._accepted(parcels)
        metrics.REFUSED.labels(self._topic).inc(len(parcels) - len(accepted))
        return accepted

    def _accepted(self, parcels: Sequence[Parcel]) -> set[str]:
        entries = [{"Id": str(index), "MessageBody": parcel.body} for index, parcel in enumerate(parcels)]
        try:
            answer = self._sqs.send_message_batch(QueueUrl=self._url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            LOG.warning("topic %s: SQS did not take %d messages: %s", self._topic, len(parcels), error)
            return set()
        for failure in answer.get("Failed", ()):
            message_id = parcels[int(failure["Id"])].message.message_id
            LOG.warning("topic %s: SQS refused message %s: %s", self._topic, message_id, failure["Code"])
        return {parcels[int(entry["Id"])].message.receipt for entry in answer.get("Successful", ())}

    def _parcel(self, message: Message) -> Parcel | None:
        text = message.text
        if text is None:
            metrics.BINARY.labels(self._topic).inc()
            text = data_url(message.data)
        content = body(message, payload=text)
        size = len(content.encode())
        if size <= CALL_BYTES:
            return Parcel(message, content, size)
        try:
            address = self._store(message)
        except (BotoCoreError, ClientError) as error:
            LOG.warning("topic %s: oversize %s not stored: %s", self._topic, message.message_id, error)
            return None
        metrics.OVERSIZE.labels(self._topic).inc()
        LOG.error("topic %s: message %s is too large, see %s", self._topic, message.message_id, address)
        content = body(message, oversize={"address": address, "bytes": len(message.data)})
        return Parcel(message, content, len(content.encode()))

    def _store(self, message: Message) -> str:
        """Put the data where people find it. A redelivery has the same key, so it overwrites itself."""
        bucket = self._names.ops_bucket
        day = message.publish_time.strftime("%Y-%m-%d")
        key = f"{OVERSIZE_PREFIX}{self._topic}/{day}/{message.message_id}"
        self._s3.put_object(Bucket=bucket, Key=key, Body=message.data)
        return f"s3://{bucket}/{key}"

    @cached_property
    def _url(self) -> str:
        url: str = self._sqs.get_queue_url(QueueName=self._names.queue(self._topic))["QueueUrl"]
        return url
