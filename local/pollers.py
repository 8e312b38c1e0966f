"""What the Lambda service does for an SQS event source mapping: gather, call, delete what succeeded."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lean_ops.ingestion import chunks
from local.execution import FunctionError

logger = logging.getLogger("lambda")

_RECEIVE = 10
_EVENT_BYTES = 6 * 1024 * 1024
_IDLE_SECONDS = 0.05
_AWAY_SECONDS = 1.0

Message = dict[str, Any]


@dataclass(frozen=True)
class Mapping:
    """An event source mapping, as the emulation has it now."""

    queue_arn: str
    function: str
    batch_size: int
    enabled: bool

    @property
    def queue(self) -> str:
        return self.queue_arn.rpartition(":")[2]


class Poller:
    """Polls one queue until told to stop. A message is deleted only after the function has answered for it."""

    def __init__(
        self,
        sqs: Any,
        mapping: Callable[[], Mapping | None],
        invoke: Callable[[Sequence[Message], Mapping], set[str]],
        *,
        window_seconds: float,
    ) -> None:
        self._sqs, self._mapping, self._invoke = sqs, mapping, invoke
        self._window_seconds = window_seconds

    def run(self, stopping: Event) -> None:
        while not stopping.is_set():
            mapping = self._mapping()
            if mapping is None or not mapping.enabled:
                stopping.wait(_AWAY_SECONDS)
                continue
            try:
                self._turn(mapping)
            except (ClientError, BotoCoreError) as error:
                logger.warning("%s: %s", mapping.queue, error)
                stopping.wait(_AWAY_SECONDS)

    def _turn(self, mapping: Mapping) -> None:
        url = self._sqs.get_queue_url(QueueName=mapping.queue)["QueueUrl"]
        batch = list(self._gather(url, mapping.batch_size))
        for run in chunks.by_size(batch, _size, most=mapping.batch_size, most_bytes=_EVENT_BYTES):
            try:
                failed = self._invoke(run, mapping)
            except FunctionError as error:
                logger.warning("%s: %s messages come again: %s", mapping.function, len(run), error)
                continue
            self._delete(url, [message for message in run if message["MessageId"] not in failed])

    def _gather(self, url: str, batch_size: int) -> Iterator[Message]:
        """Up to a batch, or what has come when the window closes; it opens with the first message."""
        wait, gathered, closes = 1, 0, 0.0
        while gathered < batch_size:
            response = self._sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(_RECEIVE, batch_size - gathered),
                WaitTimeSeconds=wait,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = response.get("Messages", [])
            if not gathered:
                closes = time.monotonic() + self._window_seconds
            gathered += len(messages)
            yield from messages
            if not gathered or time.monotonic() >= closes:
                return
            if not messages:
                time.sleep(_IDLE_SECONDS)
            wait = 0

    def _delete(self, url: str, messages: Sequence[Message]) -> None:
        for run in chunks.by_count(messages, _RECEIVE):
            entries = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
                for index, message in enumerate(run)
            ]
            self._sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def sqs_event(messages: Sequence[Message], mapping: Mapping) -> dict[str, Any]:
    """The event that Lambda makes of received messages."""
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message.get("Attributes", {}),
                "messageAttributes": message.get("MessageAttributes", {}),
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": mapping.queue_arn,
                "awsRegion": mapping.queue_arn.split(":")[3],
            }
            for message in messages
        ]
    }


def failed_ids(response: Any, messages: Sequence[Message]) -> set[str]:
    """The messages that a partial batch response names. One unknown id, and the whole batch has failed."""
    failures = (response or {}).get("batchItemFailures") or []
    named = {failure.get("itemIdentifier") for failure in failures}
    everything = {message["MessageId"] for message in messages}
    return named if everything.issuperset(named) else everything


def batch_call(function: Callable[[Any], Any]) -> Callable[[Sequence[Message], Mapping], set[str]]:
    """A function that takes SQS events and reports partial failures."""

    def invoke(messages: Sequence[Message], mapping: Mapping) -> set[str]:
        return failed_ids(function(sqs_event(messages, mapping)), messages)

    return invoke


def relay_call(function: Callable[[Any], Any]) -> Callable[[Sequence[Message], Mapping], set[str]]:
    """A function that takes EventBridge's events, which arrive here as the bodies of messages."""

    def invoke(messages: Sequence[Message], _mapping: Mapping) -> set[str]:
        for message in messages:
            function(json.loads(message["Body"]))
        return set()

    return invoke


def _size(message: Message) -> int:
    return len(message["Body"].encode(errors="surrogatepass")) + 1024
