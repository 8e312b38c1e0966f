"""docs/onboard-a-topic.md is true: what it types is typed here, and what it shows is what comes out."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from lean_ops.config.strict_yaml import parse
from lean_ops.config.topics import TopicSpec
from tests.command_line import Answer, call
from tests.repositories import ROOT

GUIDE = (ROOT / "docs" / "onboard-a-topic.md").read_text(encoding="utf-8")
# Each console block: the command after the dollar sign, and what it prints.
BLOCKS = [
    (command, shown.splitlines())
    for command, shown in re.findall(r"```console\n\$ lean-ops (.*)\n((?:.*\n)*?)```", GUIDE)
]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the reviewed files, as a reader of the guide has it."""
    for folder in ("topics", "schemas", "environments"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(block: int) -> tuple[Answer, list[str]]:
    command, shown = BLOCKS[block]
    return call(*shlex.split(command)), shown


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_guide_has_the_four_commands_it_is_about() -> None:
    assert [command.split(" ")[:2] for command, _ in BLOCKS] == [
        ["topics", "new"], ["topics", "validate"], ["topics", "validate"], ["schema", "diff"],
    ]  # fmt: skip


def test_onboarding_goes_as_the_guide_says(clone: Path) -> None:
    answer, shown = typed(0)
    assert (answer.out + answer.err).splitlines() == shown

    answer, shown = typed(1)
    assert (answer.out + answer.err).splitlines() == shown

    with (clone / "topics/shipments.yaml").open("a", encoding="utf-8") as stream:
        stream.write("drift: {new_colum: add}\n")
    replace(clone / "schemas/shipments/schema.json", '"type": "string"', '"type": "strng"')
    answer, shown = typed(2)
    assert (answer.out + answer.err).splitlines() == shown


def test_the_comparison_in_the_guide_comes_out_as_shown(clone: Path) -> None:
    shutil.copy(clone / "schemas/orders/schema.json", clone / "orders-next.json")
    replace(clone / "orders-next.json", '"version": "1.0"', '"version": "1.1"')
    replace(clone / "orders-next.json", '"decimal(18,2)"', '"double"')
    answer, shown = typed(3)
    assert (answer.out + answer.err).splitlines() == shown


def test_the_keys_in_the_guide_are_keys_of_a_topic() -> None:
    named = re.findall(r"^\| (`.*?`) \|", GUIDE.partition("## 2.")[0], flags=re.MULTILINE)
    keys = [key for cell in named for key in re.findall(r"`([a-z_.]+)", cell)]
    assert "drift.max_columns" in keys
    for key in keys:
        first, _, second = key.partition(".")
        assert first in TopicSpec.model_fields
        section = TopicSpec.model_fields[first].annotation
        assert not second or second in getattr(section, "model_fields", {})


def test_the_yaml_in_the_guide_is_sound() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.DOTALL)
    parsed = parse("guide", text.encode())
    assert parsed.findings == ()
    assert parsed.document is not None
    assert TopicSpec.model_validate(
        {"topic": "shipments", "owner": "o", "description": "d", **parsed.document.data}
    )
