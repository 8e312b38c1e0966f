"""SQS standard queues for moto that lose nothing under concurrent calls and stay fast when they are deep.

moto rebuilds its list of messages at every delete without a lock, so that a message sent at the same moment
is gone; and it looks at every message of a queue at every call: a receive took 466 ms at a depth of 1,000.
"""

from __future__ import annotations

import copy
import heapq
import time
from collections import OrderedDict
from threading import Condition
from typing import Any, cast

from moto.sqs import models
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import Message


def _now() -> float:
    return time.time() * 1000


class StandardQueue(models.Queue):
    """Messages are ready, or they wait (in flight or delayed) for an alarm that makes them ready.

    moto's event source mappings are ignored on purpose: they would empty the queue without running any code.
    """

    _ready: OrderedDict[str, Message]
    _waiting: dict[str, Message]
    _alarms: list[tuple[float, str]]
    _handles: dict[str, Message]

    @property
    def _messages(self) -> list[Message]:
        return [*self._ready.values(), *self._waiting.values()]

    @_messages.setter
    def _messages(self, messages: list[Message]) -> None:
        self._ready = OrderedDict((message.id, message) for message in messages)
        self._waiting, self._alarms, self._handles = {}, [], {}

    @property
    def messages(self) -> list[Message]:
        with self._messages_lock:
            self._ring()
            return list(self._ready.values())

    @property
    def approximate_number_of_messages(self) -> int:
        with self._messages_lock:
            self._ring()
            return len(self._ready)

    @property
    def approximate_number_of_messages_delayed(self) -> int:
        with self._messages_lock:
            self._ring()
            return sum(message.approximate_receive_count == 0 for message in self._waiting.values())

    @property
    def approximate_number_of_messages_not_visible(self) -> int:
        with self._messages_lock:
            self._ring()
            return sum(message.approximate_receive_count > 0 for message in self._waiting.values())

    def add_message(self, message: Message) -> None:
        with self._messages_lock:
            self._place(message, message.delayed_until)
            self._messages_lock.notify_all()

    def delete_message(self, receipt_handle: str) -> None:
        """Deleting what is already gone succeeds, as on AWS."""
        with self._messages_lock:
            message = self._handles.get(receipt_handle)
            if message is not None:
                self._forget(message)

    def hide(self, receipt_handle: str, seconds: int) -> None:
        with self._messages_lock:
            message = self._handles.get(receipt_handle)
            if message is None:
                raise ReceiptHandleIsInvalid
            message.change_visibility(seconds)
            self._place(message, message.visible_at if seconds else 0)
            self._messages_lock.notify_all()

    def receive(self, count: int, wait_seconds: float, visibility_seconds: int) -> list[Message]:
        deadline = time.monotonic() + wait_seconds
        with self._messages_lock:
            while not (taken := self._take(count, visibility_seconds)):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                alarm = (self._alarms[0][0] - _now()) / 1000 if self._alarms else left
                self._messages_lock.wait(max(min(left, alarm), 0.001))
            return taken

    def _take(self, count: int, visibility_seconds: int) -> list[Message]:
        self._ring()
        taken: list[Message] = []
        while self._ready and len(taken) < count:
            _, message = self._ready.popitem(last=False)
            if self._is_expired(message):
                self._forget(message)
            elif self._is_spent(message):
                self._forget(message)
                self.dead_letter_queue.add_message(message)  # type: ignore[union-attr]
            else:
                taken.append(message)
        for message in taken:
            message.mark_received(visibility_timeout=visibility_seconds)
            self._handles[message.receipt_handle] = message  # type: ignore[index]
            self._place(message, message.visible_at if visibility_seconds else 0)
        return [copy.copy(message) for message in taken]

    def _is_expired(self, message: Message) -> bool:
        retention_ms: int = self.message_retention_period * 1000  # type: ignore[attr-defined]
        return message.sent_timestamp is not None and message.sent_timestamp + retention_ms <= _now()

    def _is_spent(self, message: Message) -> bool:
        if self.dead_letter_queue is None or not self.redrive_policy:
            return False
        return bool(message.approximate_receive_count >= self.redrive_policy["maxReceiveCount"])

    def _place(self, message: Message, ready_at: float) -> None:
        self._ready.pop(message.id, None)
        self._waiting.pop(message.id, None)
        if ready_at <= _now():
            self._ready[message.id] = message
            return
        message.alarm = ready_at  # type: ignore[attr-defined]
        self._waiting[message.id] = message
        heapq.heappush(self._alarms, (ready_at, message.id))

    def _ring(self) -> None:
        while self._alarms and self._alarms[0][0] <= _now():
            set_for, message_id = heapq.heappop(self._alarms)
            message = self._waiting.get(message_id)
            # An alarm of a message that was deleted or hidden anew rings for nobody.
            if message is not None and message.alarm == set_for:  # type: ignore[attr-defined]
                self._ready[message_id] = self._waiting.pop(message_id)

    def _forget(self, message: Message) -> None:
        self._ready.pop(message.id, None)
        self._waiting.pop(message.id, None)
        for handle in message.all_receipt_handles:
            self._handles.pop(handle, None)  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_messages_lock": None, "lambda_event_source_mappings": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _messages_lock=Condition())


def receive_message(  # noqa: PLR0917 (the signature is moto's)
    backend: models.SQSBackend,
    queue_name: str,
    count: int,
    wait_seconds_timeout: int,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[Message]:
    """Stands in for the method of moto's backend."""
    queue = cast(StandardQueue, backend.get_queue(queue_name))
    messages = queue.receive(count, wait_seconds_timeout, visibility_timeout)
    for message in messages:
        models._filter_message_attributes(message, message_attribute_names or [])
    return messages


def change_message_visibility(
    backend: models.SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
) -> None:
    """Stands in for the method of moto's backend."""
    cast(StandardQueue, backend.get_queue(queue_name)).hide(receipt_handle, int(visibility_timeout))
