"""Texts for people, from templates: a name that a template misses is an error, not an empty place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,  # noqa: S701 (Markdown and plain text)
)


@cache
def _template(name: str) -> Template:
    return _ENVIRONMENT.get_template(f"{name}.j2")


def render(name: str, **facts: Any) -> str:
    """A template, filled."""
    return _template(name).render(**facts)
