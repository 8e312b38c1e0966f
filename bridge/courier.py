"""One topic's courier: round after round, every message pulled ends acknowledged or given back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Event
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError
from google.api_core.exceptions import GoogleAPIError

from bridge import metrics
from bridge.envelope import Message
from bridge.flow import FIRST_WINDOW, Limits, next_window
from bridge.lanes import advanced, by_key, heads

LOG = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
# What a stopped lane held comes back after this: a key that SQS refuses slows down itself, not its topic.
RETRY_SECONDS = 10
# Far beyond the longest round, pull and pause together.
STUCK_AFTER = 180.0


class Source(Protocol):
    """Where messages come from."""

    def pull(self, most: int) -> list[Message]: ...
    def acknowledge(self, messages: Sequence[Message]) -> None: ...
    def give_back(self, messages: Sequence[Message], *, after_seconds: int) -> None: ...


class Destination(Protocol):
    """Where they go."""

    def send(self, messages: Iterable[Message]) -> Collection[str]: ...


class Courier:
    """Carries one topic."""

    def __init__(
        self,
        topic: str,
        source: Source,
        destination: Destination,
        limits: Limits,
        *,
        stopping: Event,
        clock: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.trouble: str | None = "no round yet"
        self._source = source
        self._destination = destination
        self._limits = limits
        self._stopping = stopping
        self._clock = clock
        self._window = min(FIRST_WINDOW, limits.messages)
        self._round_began = clock()

    def run(self) -> None:
        """Go on until a stop is asked for; rounds that move nothing are followed by growing pauses."""
        pause = 0.0
        while not self._stopping.is_set():
            self._round_began = self._clock()
            try:
                moving = self.round()
            except (GoogleAPIError, BotoCoreError, ClientError) as error:
                moving, self.trouble = False, f"{type(error).__name__}: {error}"
            if self.trouble:
                metrics.FAILED_ROUNDS.labels(self.topic).inc()
                LOG.warning("topic %s: %s", self.topic, self.trouble)
            pause = 0.0 if moving else min(LONGEST_PAUSE, max(0.5, 2 * pause))
            self._stopping.wait(pause)

    def round(self) -> bool:
        """Pull once and settle everything pulled; False when SQS took none of it."""
        messages = self._source.pull(self._window)
        self._hold(messages)
        try:
            confirmed = self._carry(messages)
            done = [message for message in messages if message.receipt in confirmed]
            rest = [message for message in messages if message.receipt not in confirmed]
            self._source.acknowledge(done)
            metrics.ACKNOWLEDGED.labels(self.topic).inc(len(done))
            self._source.give_back(rest, after_seconds=0 if self._stopping.is_set() else RETRY_SECONDS)
            metrics.GIVEN_BACK.labels(self.topic).inc(len(rest))
        finally:
            self._hold([])
        self._window = next_window(self._limits, self._window, messages)
        self.trouble = f"{len(rest)} of {len(messages)} messages given back" if rest else None
        return bool(done) or not messages

    def stuck(self) -> bool:
        """Whether this round has taken longer than all timeouts together allow."""
        return self._clock() - self._round_began > STUCK_AFTER

    def _carry(self, messages: Sequence[Message]) -> set[str]:
        metrics.PULLED.labels(self.topic).inc(len(messages))
        last_start = self._clock() + self._limits.lease_seconds / 2
        confirmed: set[str] = set()
        lanes = by_key(messages)
        while lanes and not self._stopping.is_set() and self._clock() < last_start:
            accepted = self._destination.send(heads(lanes))
            metrics.SENT.labels(self.topic).inc(len(accepted))
            confirmed.update(accepted)
            lanes = advanced(lanes, accepted)
        return confirmed

    def _hold(self, messages: Sequence[Message]) -> None:
        metrics.OUTSTANDING.labels(self.topic).set(len(messages))
        metrics.OUTSTANDING_BYTES.labels(self.topic).set(sum(len(message.data) for message in messages))
