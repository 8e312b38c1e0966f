"""Small repositories for tests: the files that a test is about, in the folders where they belong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lean_ops.config.repository import Repository

ROOT = Path(__file__).parents[1]


def repository(root: Path, files: Mapping[str, str | bytes] | None = None) -> Repository:
    """A repository that holds these files and nothing else."""
    for folder in ("topics", "environments"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, content in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Repository(root)


def topic(name: str, more: str = "") -> str:
    """A topic file with its three required keys, and more lines from line 4 on."""
    return f"topic: {name}\nowner: platform\ndescription: What {name} are.\n{more}"


def environment(name: str, more: str = "") -> str:
    """An environment file of eight lines, and more from line 9 on."""
    return (
        f"name: {name}\n"
        'account: "123456789012"\n'
        "region: eu-central-1\n"
        f"name_prefix: lean-ops-{name}\n"
        "catalog:\n  kind: glue\n"
        "engine:\n  kind: glue\n"
        f"{more}"
    )


def column(name: str, type_: str = "string", **fields: Any) -> dict[str, Any]:
    """A column of a contract file."""
    return {"name": name, "type": type_, **fields}


def contract(*columns: Mapping[str, Any], **fields: Any) -> str:
    """A contract file, sound unless its columns or fields say otherwise."""
    return json.dumps(
        {
            "table_name": "orders",
            "version": "1.0",
            "envelope_columns": ["message_id", "idempotency_key", "publish_time", "period_reference"],
            "payload_columns": list(columns),
            **fields,
        }
    )
