"""Makes the world follow a circuit breaker: polling as the state wants it, and one alert per outage.

Both the processor (which wins a transition) and the controller (which repairs what a crash left undone) do
exactly this, and doing it again changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lean_ops.errors import RetryableError
from lean_ops.ingestion.breaker import Breaker, State, after_time, cool_down
from lean_ops.ingestion.ports import Alerts, Books, Pollers

# Long enough for whoever moved a breaker to follow it, before the controller takes it for a crash.
GRACE_SECONDS = 30
# A closed breaker is watched this long, in case a slow process still disabled the polling of its outage.
# Afterwards a mapping that a person disabled stays disabled.
WATCH_SECONDS = 3600


@dataclass(frozen=True)
class Outage:
    """Carries a breaker's state out into the world."""

    pollers: Pollers
    alerts: Alerts
    books: Books

    def follow(self, breaker: Breaker) -> None:
        """Polling first: an alert may fail, messages must not."""
        self.pollers.set_polling(breaker.topic, enabled=breaker.polls)
        self._alert(breaker)

    def tick(self, now: float) -> dict[str, str]:
        """Move by time and follow every breaker that needs it. Returns what could not be done, by topic."""
        polled = self.pollers.polled()
        faults: dict[str, str] = {}
        for breaker in self.books.all():
            if breaker.state is State.CLOSED and now - breaker.changed_at > WATCH_SECONDS:
                continue
            try:
                self._tick(breaker, now, polled=polled.get(breaker.topic))
            except RetryableError as error:
                faults[breaker.topic] = str(error)
        return faults

    def _tick(self, breaker: Breaker, now: float, *, polled: bool | None) -> None:
        following = after_time(breaker, now)
        if following is not None and self.books.move(breaker, following):
            breaker = following
        if polled is not None and polled != breaker.polls:
            self.pollers.set_polling(breaker.topic, enabled=breaker.polls)
        if now - breaker.changed_at > GRACE_SECONDS:
            self._alert(breaker)

    def _alert(self, breaker: Breaker) -> None:
        # Told, then noted: a crash in between tells twice, the other order might never tell.
        if not breaker.alerted:
            self.alerts.publish(f"{breaker.topic}: ingestion stopped", _story(breaker))
            self.books.mark_alerted(breaker)


def _story(breaker: Breaker) -> str:
    return (
        f"More than the allowed share of the messages of topic {breaker.topic} could not be delivered. "
        f"Its queue is not polled; nothing is lost. It is tried again in {cool_down(breaker)} seconds, "
        "and after every further failure half as often."
    )
