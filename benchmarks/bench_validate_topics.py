"""Checking 700 topic files against the least it could cost: parsing them with PyYAML's C loader.

Both read the same files in the same process, in turns; the best round of each counts, so that what else the
machine does falls on neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import yaml

from lean_ops.config.repository import Repository
from lean_ops.config.review import review

FILES = 700
ROUNDS = 7
LIMIT = 4.0

TOPIC = """\
# yaml-language-server: $schema=_topic.schema.json
topic: {name}
owner: team_{team}
description: Messages number {number} of the many that this company sends.
tags: [finance, tier{tier}]
source:
  subscription: {name}-lean-ops
keys:
  idempotency_key: _metadata.idempotencyKeyResource
  period_reference: accounting.period
totals: [amount]
quality:
  freshness_minutes: 30
alerts:
  severity: high
"""


def repository(root: Path) -> Repository:
    """Seven hundred topics like those that are shipped, over the shipped defaults."""
    (root / "topics").mkdir()
    shipped = Path(__file__).parents[1] / "topics" / "_defaults.yaml"
    (root / "topics" / shipped.name).write_bytes(shipped.read_bytes())
    for number in range(FILES):
        name = f"topic_{number:03d}"
        text = TOPIC.format(name=name, number=number, team=number % 9, tier=number % 3)
        (root / "topics" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Repository(root)


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def test_validating_topics_costs_at_most_four_times_parsing_them(tmp_path: Path) -> None:
    topics = repository(tmp_path)

    def parse() -> None:
        for path in topics.topic_files():
            with path.open("rb") as stream:
                yaml.load(stream.read(), Loader=yaml.CSafeLoader)

    def validate() -> None:
        assert len(review(topics).topics) == FILES

    rounds = [(seconds(parse), seconds(validate)) for _ in range(ROUNDS)]
    parsing, validating = (min(times) for times in zip(*rounds, strict=True))
    ratio = validating / parsing
    print(
        f"\n{FILES} topic files: parsed in {parsing * 1000:.0f} ms, validated in {validating * 1000:.0f} ms: "
        f"{ratio:.2f} times (limit {LIMIT:g})"
    )
    assert ratio <= LIMIT
