"""JSON Schemas of the reviewed files, made from the models, so that editors complete and check them.

A topic file may leave out whatever `_defaults.yaml` says, so only its own three keys are required.
"""

from __future__ import annotations

import json
from pathlib import Path

from lean_ops.contracts import ContractSpec
from lean_ops.environments import EnvironmentSpec
from lean_ops.specs import Spec
from lean_ops.topics import TopicSpec

_FILES: dict[str, tuple[type[Spec], str]] = {
    "topics/_topic.schema.json": (TopicSpec, "A lean-ops topic"),
    "schemas/_contract.schema.json": (ContractSpec, "A lean-ops contract"),
    "environments/_environment.schema.json": (EnvironmentSpec, "A lean-ops environment"),
}


def render() -> dict[str, str]:
    """Each schema file's path within the repository, and its text."""
    return {
        file: json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema"}
            | model.model_json_schema(by_alias=True)
            | {"title": title},
            indent=2,
            sort_keys=True,
        )
        + "\n"
        for file, (model, title) in _FILES.items()
    }


def outdated(root: Path) -> list[str]:
    """The files that no longer say what the models say."""
    return [
        file
        for file, text in render().items()
        if not (root / file).is_file() or (root / file).read_text() != text
    ]


def write(root: Path) -> list[str]:
    """Bring the files up to date; returns those that changed."""
    changed = outdated(root)
    for file in changed:
        (root / file).write_text(render()[file])
    return changed
