"""All couriers of a process: started together, watched together, stopped together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event, Thread

from bridge.courier import Courier


class Crew:
    """One thread a courier. Daemons, because the time to stop is limited; what is cut off is delivered again."""

    def __init__(self, couriers: Sequence[Courier], stopping: Event) -> None:
        self._stopping = stopping
        self._threads = {c: Thread(target=c.run, name=c.topic, daemon=True) for c in couriers}

    def start(self) -> None:
        for thread in self._threads.values():
            thread.start()

    def unhealthy(self) -> dict[str, str]:
        """The topics that only a restart can help."""
        dead = {
            c.topic: "its courier is dead" for c, thread in self._threads.items() if not thread.is_alive()
        }
        return {c.topic: "its courier is stuck" for c in self._threads if c.stuck()} | dead

    def unready(self) -> dict[str, str]:
        """The topics whose last round had trouble, or that had none yet."""
        if self._stopping.is_set():
            return {"": "stopping"}
        return {c.topic: c.trouble for c in self._threads if c.trouble}

    def join(self, seconds: float) -> list[str]:
        """Wait for all to settle; the topics that did not in time."""
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        return [c.topic for c, thread in self._threads.items() if thread.is_alive()]
