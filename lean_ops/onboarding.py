"""The two files that onboard a topic, as valid starting points: onboarding is two edits."""

from __future__ import annotations

from pathlib import Path

from lean_ops.errors import LeanOpsError
from lean_ops.naming import topic_name_fault
from lean_ops.repository import Repository

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
    fault = topic_name_fault(topic)
    if fault:
        raise LeanOpsError(f"{topic!r} cannot be a topic name: expected {fault}")
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
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _quoted(text: str) -> str:
    # A YAML double-quoted scalar: whatever the text holds, it stays one scalar.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", " ") + '"'
