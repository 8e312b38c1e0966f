"""The event source mappings of the processor: which topics' queues are polled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.patience import dependency
from lean_ops.naming import Names

_ON = ("Enabled", "Enabling", "Creating", "Updating")


@dataclass(frozen=True)
class Mappings:
    """One mapping per topic's queue, found by the queue and never by a stored id."""

    client: Any
    names: Names

    def polled(self) -> dict[str, bool]:
        """Every topic with a mapping, and whether its queue is polled: a page per hundred topics."""
        function = self.names.function("sqs_processor")
        return {
            self.names.topic_of_queue(each["EventSourceArn"].rsplit(":", 1)[-1]): each["State"] in _ON
            for each in self._list(FunctionName=function)
        }

    def set_polling(self, topic: str, *, enabled: bool) -> None:
        """Enable or disable a topic's mapping; nothing is called when it is as it should be."""
        for each in self._list(EventSourceArn=self.names.queue_arn(self.names.queue(topic))):
            if (each["State"] in _ON) != enabled:
                with dependency():
                    self.client.update_event_source_mapping(UUID=each["UUID"], Enabled=enabled)

    def _list(self, **arguments: str) -> Iterator[dict[str, Any]]:
        with dependency():
            pages = self.client.get_paginator("list_event_source_mappings").paginate(**arguments)
            for page in pages:
                yield from page["EventSourceMappings"]
