"""SQL as reviewed templates: strict about what is undefined, and only checked identifiers reach them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined

from lean_ops.naming import is_identifier


def render(name: str, **values: object) -> str:
    """A template with its values."""
    return _environment().get_template(f"{name}.sql.j2").render(**values)


def quoted(identifier: tuple[str, str]) -> str:
    """A table by database and name, as every dialect we use reads it."""
    for part in identifier:
        if not is_identifier(part):
            raise ValueError(f"{part!r} is no identifier")
    return ".".join(f'"{part}"' for part in identifier)


@cache
def _environment() -> Environment:
    folder = files("lean_ops") / "sql"
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.name.endswith(".j2")
    }
    # SQL is no HTML: identifiers are checked before they come here, and values never do.
    return Environment(
        loader=DictLoader(texts),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
    )
