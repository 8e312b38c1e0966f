"""Sends bodies to the topics' queues, ten to a call, resending only what was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lean_ops.aws.patience import PATIENT, Patience, dependency
from lean_ops.errors import RetryableError
from lean_ops.ingestion import chunks
from lean_ops.naming import Names
from lean_ops.resources import QUEUES


@dataclass(frozen=True)
class Queues:
    """The queues of one environment."""

    client: Any
    names: Names
    patience: Patience = PATIENT
    _urls: dict[str, str] = field(default_factory=dict, repr=False)

    def url(self, topic: str) -> str:
        """The address of a topic's queue, asked for once."""
        if topic not in self._urls:
            with dependency():
                found = self.client.get_queue_url(QueueName=self.names.queue(topic))
            self._urls[topic] = found["QueueUrl"]
        return self._urls[topic]

    def send(self, topic: str, bodies: Sequence[str], *, delay_seconds: int = 0) -> dict[int, str]:
        """The index and error code of every body that was not taken."""
        unsent: dict[int, str] = {}
        for run in chunks.by_size(
            range(len(bodies)),
            lambda index: len(bodies[index].encode()),
            most=QUEUES.max_batch_messages,
            most_bytes=QUEUES.max_message_bytes,
        ):
            unsent.update(self._send_run(topic, bodies, dict.fromkeys(run, ""), delay_seconds))
        return unsent

    def _send_run(self, topic: str, bodies: Sequence[str], run: dict[int, str], delay: int) -> dict[int, str]:
        left = run  # what a failing call leaves is what the last answered one refused

        def attempt(pending: dict[int, str]) -> dict[int, str]:
            nonlocal left
            entries = [
                {"Id": str(index), "MessageBody": bodies[index], "DelaySeconds": delay} for index in pending
            ]
            response = self.client.send_message_batch(QueueUrl=self.url(topic), Entries=entries)
            left = {int(failure["Id"]): failure["Code"] for failure in response.get("Failed", ())}
            return left

        try:
            return self.patience.exhaust(run, attempt)
        except RetryableError as error:
            return dict.fromkeys(left, str(error))
