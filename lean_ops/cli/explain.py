"""`lean-ops explain`: where a record is, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.batch.explanation import Explanation, Facts
    from lean_ops.runtime import Runtime


def explain(
    message_id: Annotated[str, typer.Argument(help="The message, by its id.")] = "",
    key: Annotated[str | None, typer.Option("--key", help="All versions of a key instead.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="One topic; all of them by default.")] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Say where a record is, what became of it, and why: a timeline."""
    from lean_ops.batch.explanation import explain as explanation_of
    from lean_ops.config.repository import load_topic, load_topics
    from lean_ops.errors import NotFoundError

    if bool(message_id) == (key is not None):
        raise typer.BadParameter("either a message or --key KEY")
    repository, runtime = options.repository(root), options.runtime(root, env)
    topics = [load_topic(repository, topic).topic] if topic else sorted(load_topics(repository).checked())
    found = [explanation_of(facts) for name in topics for facts in _facts(runtime, name, message_id, key)]
    if not found:
        what = f"message {message_id!r}" if message_id else f"version of key {key!r}"
        raise NotFoundError(
            f"no table of {', '.join(topics)} holds a {what}",
            next_step="lean-ops dlq list, in case it never left its queue",
        )
    if as_json:
        output.data([asdict(each) for each in found])
        return
    for each in found:
        _print(each)


def _facts(runtime: Runtime, topic: str, message_id: str, key: str | None) -> list[Facts]:
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.message_search import MessageSearch

    search = MessageSearch(open_catalog(runtime.environment, runtime.home), topic)
    return search.of_message(message_id) if key is None else search.of_key(key)


def _print(explanation: Explanation) -> None:
    from lean_ops.batch.explanation import moment

    key = f", key {explanation.idempotency_key}" if explanation.idempotency_key else ""
    output.line(f"{explanation.topic}: {explanation.message_id} of {moment(explanation.publish_time)}{key}")
    output.line(f"{explanation.outcome}: {explanation.why}")
    rows = [
        (moment(event.at), event.layer, event.text, event.batch_id, event.snapshot)
        for event in explanation.timeline
    ]
    output.table(("at", "layer", "what", "batch", "snapshot"), rows)
    output.line()
