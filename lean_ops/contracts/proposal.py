"""Writes what is missing of a topic's two files, as far as a sample tells it: a proposal for a person to review."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from lean_ops.config.repository import Repository
from lean_ops.contracts.inference import Guess

_HEAD = """\
# yaml-language-server: $schema=_topic.schema.json
# A proposal: owner, description, subscription and keys are guesses, from {records} records. Review, then delete this.
"""


def propose(repository: Repository, topic: str, guess: Guess) -> list[Path]:
    """Write the topic file, and the contract once there are records to guess it from. Nothing is overwritten."""
    texts = {repository.topics_folder / f"{topic}.yaml": _topic_text(topic, guess)}
    if guess.records:
        texts[repository.contract_file(topic)] = (
            json.dumps(guess.contract, indent=2, ensure_ascii=False) + "\n"
        )
    missing = [path for path in texts if not path.exists()]
    for path in missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(texts[path])
    return missing


def _topic_text(topic: str, guess: Guess) -> str:
    keys = {"idempotency_key": guess.idempotency_key, "period_reference": guess.period_reference}
    known = {name: path for name, path in keys.items() if path is not None}
    spec = {
        "topic": topic,
        "owner": "platform",
        "description": "Say what its messages are.",
        "source": {"subscription": f"{topic}-lean-ops"},
        **({"keys": known} if known else {}),
    }
    text: str = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=1000)
    return _HEAD.format(records=guess.records) + text
