"""What a Spark job is told, by whatever engine starts it: one JSON argument, no look-ups of its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lean_ops.specs import Spec
from lean_ops.topics import TopicSpec


class JobArguments(Spec):
    """The topic as it was reviewed, and how much of its backlog one run takes at most."""

    topic: TopicSpec
    max_batches: Annotated[int, Field(ge=1)] = 100
    bite_records: Annotated[int, Field(ge=1)] = 2_000_000
    bite_bytes: Annotated[int, Field(ge=1)] = 512 * 1024 * 1024
