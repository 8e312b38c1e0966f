"""Whatever is lost, doubled, invented or changed in a table, a statement fails, and it is the right one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from local.emulation import injection
from local.emulation.comparison import Comparison
from local.emulation.expectation import Expectation, expect
from local.emulation.ledger import DAYS
from local.emulation.payloads import PERSONAL
from local.emulation.traffic import Traffic, anchor_of

PII_KEY = b"a key of 32 bytes that only tests use"
TRAFFIC = Traffic(1, anchor_of(date(2026, 11, 18)), 100, injection.load(injection.DEFAULT_FILE))
COLUMNS = 7  # of a Curated row, before its values


@dataclass
class Tables:
    """The tables of a topic as they should be, to be damaged."""

    truth: Expectation
    lists: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        truth = self.truth
        first = next(iter(truth.raw.items()))
        self.lists = {
            "raw": [*truth.raw.items(), *[first] * (truth.forgotten or 1)],
            "standardized": list(truth.standardized.items()),
            "parse_errors": list(truth.parse_errors.items()),
            "errors": [(identity, (each.code, each.column)) for identity, each in truth.errors.items()],
            "dead_letters": list(truth.dead_letters.elements()),
            "drift": [(column, "ADDED") for column in truth.added_columns]
            + [(column, "TYPE_CHANGED") for column in truth.flipped_columns],
            "curated": [
                (key, *row[:6], *(_stored(truth.topic, *pair) for pair in row.values.items()))
                for key, row in truth.rows.items()
            ],
        }

    def __getattr__(self, name: str) -> Callable[[], list[Any]]:
        return lambda: list(self.lists[name])

    def drifted(self, column: str) -> list[Any]:
        return list(self.truth.drifted[column].items()) if "drifted" not in self.lists else []

    def drift(self) -> set[tuple[str, str]]:
        return set(self.lists["drift"])

    def curated(self, _columns: Iterable[str]) -> list[Any]:
        return self.lists["curated"]


def _stored(topic: str, column: str, text: str | None) -> str | None:
    if text is None or column not in PERSONAL[topic]:
        return text
    return hmac.new(PII_KEY, text.encode(), hashlib.sha256).hexdigest()


def failures(topic: str, damage: Callable[[dict[str, list[Any]]], None], *, processed: bool = True) -> str:
    truth = expect(topic, (m for day in DAYS for m in TRAFFIC.of(day, topic)), processed=processed)
    tables = Tables(truth)
    damage(tables.lists)
    checks = list(Comparison(truth, tables, "sqs", PII_KEY).checks())  # type: ignore[arg-type]
    assert all(check.detail for check in checks if not check.passed)
    return "\n".join(check.statement for check in checks if not check.passed)


@pytest.mark.parametrize("topic", ["orders", "events"])
def test_what_is_as_it_should_be_passes(topic: str) -> None:
    assert failures(topic, lambda _: None) == ""


def test_a_topic_without_a_contract_passes_while_all_of_it_waits() -> None:
    assert failures("payments", lambda _: None, processed=False) == ""


def lose(name: str) -> Callable[[dict[str, list[Any]]], None]:
    return lambda lists: lists[name].pop(0)


def double(name: str) -> Callable[[dict[str, list[Any]]], None]:
    return lambda lists: lists[name].append(lists[name][0])


def swap(name: str) -> Callable[[dict[str, list[Any]]], None]:
    """A loss and a duplicate at once: the counts stay right."""

    def change(lists: dict[str, list[Any]]) -> None:
        lists[name][0] = lists[name][1]

    return change


def move_period(lists: dict[str, list[Any]]) -> None:
    row = lists["curated"][0]
    lists["curated"][0] = (*row[:3], "1999-01", *row[4:])


def change_value(lists: dict[str, list[Any]]) -> None:
    row = list(lists["curated"][0])
    row[COLUMNS + 2] = "0.01"
    lists["curated"][0] = tuple(row)


def clear_text(lists: dict[str, list[Any]]) -> None:
    row = list(lists["curated"][0])
    row[COLUMNS + 1] = "customer1@example.com"
    lists["curated"][0] = tuple(row)


def cut_payload(lists: dict[str, list[Any]]) -> None:
    identity, payload = lists["raw"][1]
    lists["raw"][1] = (identity, payload + " ")


def forget_new_column(lists: dict[str, list[Any]]) -> None:
    lists["drifted"] = []


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lists: lists["raw"].pop(3), "RAW, byte for byte"),
        (cut_payload, "RAW, byte for byte"),
        (lose("standardized"), "Standardized: "),
        (double("standardized"), "Standardized: "),
        (swap("standardized"), "Standardized: "),
        (lose("parse_errors"), "parse errors"),
        (double("parse_errors"), "parse errors"),
        (lose("errors"), "errors ("),
        (swap("errors"), "errors ("),
        (lose("dead_letters"), "dead letters"),
        (double("dead_letters"), "dead letters"),
        (lose("curated"), "Curated, value by value"),
        (double("curated"), "duplicates: 0"),
        (change_value, "Curated, value by value"),
        (clear_text, "Curated, value by value"),
        (move_period, "keys by period"),
        (lose("drift"), "drift log"),
        (forget_new_column, "new column loyalty_tier"),
    ],
)
def test_every_kind_of_damage_is_found(damage: Callable[[dict[str, list[Any]]], None], told: str) -> None:
    assert told in failures("orders", damage)


def test_rows_of_a_topic_that_must_wait_are_found() -> None:
    damage = lambda lists: lists["curated"].append(("key", "m", 1, "2026-01", "m", 1, "2026-01"))  # noqa: E731
    assert "Curated does not exist" in failures("payments", damage, processed=False)
