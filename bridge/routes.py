"""Which subscription feeds which topic, from the reviewed topic files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lean_ops.config.repository import Repository, load_topic, load_topics
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import LeanOpsError


def load(repository: Repository, chosen: Sequence[str]) -> list[TopicSpec]:
    """The chosen topics, or all that have a subscription."""
    if chosen:
        return [load_topic(repository, topic) for topic in chosen]
    # One bad file stops the start, not a running bridge: a rollout then keeps the old one.
    return [spec for spec in load_topics(repository).checked().values() if spec.source.subscription]


def subscriptions(topics: Iterable[TopicSpec], project: str | None) -> dict[str, str]:
    """The full name of each topic's subscription."""
    topic_of: dict[str, str] = {}
    for spec in topics:
        path = _path(spec, project)
        if path in topic_of:
            raise LeanOpsError(
                f"topics {topic_of[path]!r} and {spec.topic!r} share the subscription {path!r}: "
                "each would get a part of the messages",
                next_step=f"set another source.subscription in topics/{spec.topic}.yaml",
            )
        topic_of[path] = spec.topic
    if not topic_of:
        raise LeanOpsError("no topic has a subscription", next_step="set source.subscription in a topic file")
    return {topic: path for path, topic in topic_of.items()}


def _path(spec: TopicSpec, project: str | None) -> str:
    name = spec.source.subscription
    if name is None:
        raise LeanOpsError(
            f"topic {spec.topic!r} has no subscription",
            next_step=f"set source.subscription in topics/{spec.topic}.yaml",
        )
    if "/" in name:
        return name
    if not project:
        raise LeanOpsError(
            f"the project of subscription {name!r} is not known",
            next_step="add --project, or set GOOGLE_CLOUD_PROJECT",
        )
    return f"projects/{project}/subscriptions/{name}"
