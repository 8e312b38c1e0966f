"""Options that every command shares, and the repository they lead to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lean_ops.config.repository import Repository
    from lean_ops.runtime import Runtime

Root = Annotated[
    Path | None,
    typer.Option(
        "--root", help="The repository; found upward from the current folder by default.", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Env = Annotated[
    str, typer.Option("--env", help="The environment, a file in environments/.", envvar="LEAN_OPS_ENV")
]


def repository(root: Path | None) -> Repository:
    """The repository that a command works on."""
    from lean_ops.config.repository import Repository, find_root
    from lean_ops.errors import NotFoundError

    if root is None:
        return Repository(find_root(Path.cwd()))
    if not (root / "topics").is_dir():
        raise NotFoundError(f"--root {root}: there is no folder topics/ in it", next_step="name a repository")
    return Repository(root.absolute())


def runtime(root: Path | None, env: str) -> Runtime:
    """The environment that a command works in."""
    from lean_ops import runtime as runtimes

    return runtimes.from_repository(repository(root), env, os.environ)


def person() -> str:
    """Who types, for the records that outlive the command."""
    import getpass

    return os.environ.get("LEAN_OPS_PERSON") or getpass.getuser()
