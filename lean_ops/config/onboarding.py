"""The two files that onboard a topic, as valid starting points: onboarding is two edits."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from lean_ops.config.repository import Repository
from lean_ops.config.specs import complaints
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import LeanOpsError, UsageError
from lean_ops.naming import nearest_topic_name, topic_name_fault

_TOPIC = """\
# yaml-language-server: $schema=_topic.schema.json
topic: {topic}
owner: {owner}
description: {description}
source:
  subscription: {topic}-lean-ops
keys:
  # Paths into the payload; the envelope's own idempotency_key wins when it is there.
  idempotency_key: id
"""

_CONTRACT = """\
{{
  "$schema": "../_contract.schema.json",
  "table_name": "{topic}",
  "version": "1.0",
  "description": "One row per {topic} key, in its latest valid version.",
  "envelope_columns": ["message_id", "idempotency_key", "publish_time", "period_reference"],
  "payload_columns": [
    {{"name": "id", "path": "id", "type": "string", "cde": true, "description": "The business key."}}
  ]
}}
"""


def new_topic(repository: Repository, topic: str, *, owner: str, description: str) -> list[Path]:
    """Write the topic file and the contract stub; nothing is ever overwritten."""
    _check(topic, owner, description)
    texts = {
        repository.topics_folder / f"{topic}.yaml": _TOPIC.format(
            topic=topic, owner=_quoted(owner), description=_quoted(description)
        ),
        repository.contract_file(topic): _CONTRACT.format(topic=topic),
    }
    existing = [path for path in texts if path.exists()]
    if existing:
        files = " and ".join(path.relative_to(repository.root).as_posix() for path in existing)
        raise LeanOpsError(f"{files} already there: nothing was written", next_step="edit what is there")
    for path in texts:
        path.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    return list(texts)


def _check(topic: str, owner: str, description: str) -> None:
    fault = topic_name_fault(topic)
    if fault:
        close = nearest_topic_name(topic)
        raise UsageError(
            f"{topic!r} cannot be a topic name: expected {fault}",
            next_step=f"lean-ops topics new {close}" if close else "choose another name",
        )
    try:
        TopicSpec(topic=topic, owner=owner, description=description)
    except ValidationError as error:
        first = complaints(TopicSpec, error)[0]
        option = f"--{first.location[0]}"
        raise UsageError(
            f"{option}: found {first.found}; expected {first.expected}", next_step=f"give another {option}"
        ) from None


def _quoted(text: str) -> str:
    # Whatever the text holds (quotes, line ends, control characters), it stays one scalar on one line.
    return yaml.dump(text, default_style='"', allow_unicode=True, width=float("inf")).rstrip("\n")
