"""The pages are true as far as a test can tell: links lead somewhere, commands exist, no alert is unexplained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from lean_ops.cli import app
from tests.repositories import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")
COMMAND = re.compile(r"(?:`|\$ )lean-ops ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
TARGET = re.compile(r"(?:`|\$ )make ([a-z][a-z-]*)")


def commands() -> dict[str, click.Command]:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return dict(group.commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_of_the_repository(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_and_target_exists(page: Path) -> None:
    known, text = commands(), page.read_text(encoding="utf-8")
    for name, below in COMMAND.findall(text):
        assert name in known, name
        group = known[name]
        if below and isinstance(group, click.Group):
            assert below in group.commands, f"{name} {below}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in TARGET.findall(text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def subjects() -> Iterator[tuple[str, ...]]:
    """The fixed words of every subject that something publishes, by reading the code."""
    for file in (*(ROOT / "lean_ops").rglob("*.py"), *(ROOT / "dags").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if call and node.func.attr == "publish" and node.args and isinstance(node.args[0], ast.JoinedStr):
                parts = [part.value for part in node.args[0].values if isinstance(part, ast.Constant)]
                yield tuple(str(part).strip(" :(){}") for part in parts)


def error_classes() -> set[str]:
    """The classes by which failures are told apart, by reading where they are put into words."""
    tree = ast.parse((ROOT / "dags/factory/alerts.py").read_text(encoding="utf-8"))
    [meanings] = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return set(ast.literal_eval(meanings))


def test_the_runbook_explains_every_alert() -> None:
    headings = "\n".join(line for line in RUNBOOK.splitlines() if line.startswith("## "))
    found = list(subjects())
    assert len(found) >= 5
    for words in found:
        assert all(word in headings for word in words), words
    assert "lean-ops: the contract of TOPIC was refused" in headings  # made apart from its publishing
    assert all(f"({error_class})" in headings for error_class in error_classes())
