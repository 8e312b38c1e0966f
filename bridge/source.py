"""One Pub/Sub subscription: pull, acknowledge, give back."""

from __future__ import annotations

from collections.abc import Sequence

from google.api_core.exceptions import DeadlineExceeded, ServiceUnavailable
from google.api_core.retry import Retry, if_exception_type
from google.cloud.pubsub_v1 import SubscriberClient  # type: ignore[import-untyped]
from google.pubsub_v1.types import ReceivedMessage

from bridge.envelope import Message

IDEMPOTENCY_ATTRIBUTE = "idempotency_key"

# How long an idle pull waits; a stop waits for it too.
PULL_SECONDS = 5
_SETTLE_SECONDS = 10
_SETTLE_AGAIN = Retry(predicate=if_exception_type(ServiceUnavailable), timeout=_SETTLE_SECONDS)


class Subscription:
    """A subscription with a client, and so a connection, of its own: one connection carries about a hundred
    calls at a time, and a waiting pull is a call."""

    def __init__(self, path: str, *, lease_seconds: int) -> None:
        self._path = path
        self._lease_seconds = lease_seconds
        self._client = SubscriberClient()

    def pull(self, most: int) -> list[Message]:
        """The next messages, leased; none when none came in time."""
        try:
            # No retry here: the courier's own backoff also looks at the stop signal.
            response = self._client.pull(
                subscription=self._path, max_messages=most, timeout=PULL_SECONDS, retry=None
            )
        except DeadlineExceeded:
            return []
        messages = [_message(received) for received in response.received_messages]
        self._set_deadline(messages, self._lease_seconds)
        return messages

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Tell Pub/Sub that these are safe elsewhere."""
        if messages:
            receipts = [message.receipt for message in messages]
            self._client.acknowledge(
                subscription=self._path, ack_ids=receipts, retry=_SETTLE_AGAIN, timeout=_SETTLE_SECONDS
            )

    def give_back(self, messages: Sequence[Message], *, after_seconds: int) -> None:
        """Let Pub/Sub deliver these again, then."""
        self._set_deadline(messages, after_seconds)

    def _set_deadline(self, messages: Sequence[Message], seconds: int) -> None:
        if messages:
            self._client.modify_ack_deadline(
                subscription=self._path,
                ack_ids=[message.receipt for message in messages],
                ack_deadline_seconds=seconds,
                retry=_SETTLE_AGAIN,
                timeout=_SETTLE_SECONDS,
            )


def _message(received: ReceivedMessage) -> Message:
    message = received.message
    return Message(
        receipt=received.ack_id,
        message_id=message.message_id,
        publish_time=message.publish_time,
        data=message.data,
        ordering_key=message.ordering_key,
        idempotency_key=message.attributes.get(IDEMPOTENCY_ATTRIBUTE),
    )
