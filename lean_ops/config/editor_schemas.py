"""JSON Schemas of the reviewed files, made from the models, so that editors complete and check them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lean_ops.config.environments import EnvironmentSpec
from lean_ops.config.specs import Spec
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts.spec import ContractSpec


def render() -> dict[str, str]:
    """Each schema file's path within the repository, and its text."""
    schemas = {
        "topics/_topic.schema.json": _schema(TopicSpec, "A lean-ops topic"),
        "topics/_defaults.schema.json": _without_required(_schema(TopicSpec, "What all topics share")),
        "schemas/_contract.schema.json": _schema(ContractSpec, "A lean-ops contract"),
        "environments/_environment.schema.json": _schema(EnvironmentSpec, "A lean-ops environment"),
    }
    return {file: json.dumps(schema, indent=2, sort_keys=True) + "\n" for file, schema in schemas.items()}


def _schema(model: type[Spec], title: str) -> dict[str, Any]:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | model.model_json_schema(by_alias=True) | {"title": title}


def _without_required(schema: dict[str, Any]) -> dict[str, Any]:
    """A file of defaults has none of the keys that make a topic."""
    required = schema.pop("required")
    shared = {key: value for key, value in schema["properties"].items() if key not in required}
    return schema | {"properties": shared}


def outdated(root: Path) -> list[str]:
    """The files that no longer say what the models say."""
    return [
        file
        for file, text in render().items()
        if not (root / file).is_file() or (root / file).read_text(encoding="utf-8") != text
    ]


def write(root: Path) -> list[str]:
    """Bring the files up to date; returns those that changed."""
    changed = outdated(root)
    texts = render()
    for file in changed:
        (root / file).write_text(texts[file], encoding="utf-8")
    return changed
