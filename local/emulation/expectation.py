"""What the tables must hold, worked out from the truth of the messages alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from local.emulation.message import Message, Violation

Identity = tuple[str, int]


class Row(NamedTuple):
    """A row of Curated besides its key; values that are NULL are None."""

    message_id: str
    publish_time: int
    period: str
    first_message_id: str
    first_publish_time: int
    first_period: str
    values: dict[str, str | None]

    @property
    def months_late(self) -> int:
        """Calendar months between the first version and the last."""
        return _months(self.publish_time) - _months(self.first_publish_time)


@dataclass
class Expectation:
    """The layers of one topic. `processed` says whether a contract is in force: else all of it waits in RAW."""

    topic: str
    processed: bool
    raw: dict[Identity, str] = field(default_factory=dict)
    again: int = 0
    forgotten: int = 0
    dead_letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    standardized: dict[Identity, tuple[str, str]] = field(default_factory=dict)
    drifted: dict[str, dict[Identity, str]] = field(default_factory=dict)
    parse_errors: dict[Identity, str] = field(default_factory=dict)
    errors: dict[Identity, Violation] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    superseded: int = 0
    added_columns: set[str] = field(default_factory=set)
    flipped_columns: set[str] = field(default_factory=set)

    @property
    def moved(self) -> set[str]:
        """The keys that ended in another period than they began in."""
        return {key for key, row in self.rows.items() if row.period != row.first_period}

    @property
    def periods(self) -> Counter[str]:
        return Counter(row.period for row in self.rows.values())

    @property
    def delays(self) -> Counter[int]:
        """How many keys were corrected after so many months."""
        return Counter(
            row.months_late for row in self.rows.values() if row.first_message_id != row.message_id
        )


def expect(topic: str, messages: Iterable[Message], *, processed: bool) -> Expectation:
    """What must have become of a topic's messages."""
    expected = Expectation(topic, processed)
    shapes: set[str] = set()
    for message in messages:
        if message.dead_letter:
            expected.dead_letters[message.body, message.dead_letter] += 1
            continue
        expected.raw[message.identity] = message.payload
        expected.again += message.again
        expected.forgotten += message.forgotten
        if not processed:
            continue
        if message.parse_error:
            expected.parse_errors[message.identity] = message.parse_error
            continue
        if message.trouble not in shapes:  # what is wrong with it decides the shape of a payload
            shapes.add(message.trouble)
            expected.added_columns |= set(_columns(json.loads(message.payload)))
        _standardized(expected, message)
    return expected


def _standardized(expected: Expectation, message: Message) -> None:
    expected.standardized[message.identity] = (message.key, message.period)
    for column, text in message.drifted.items():
        expected.drifted.setdefault(column, {})[message.identity] = text
    expected.flipped_columns.update(message.flipped)
    if message.violation:
        expected.errors[message.identity] = message.violation
        return
    known = expected.rows.get(message.key)
    expected.superseded += known is not None
    expected.rows[message.key] = _merged(known, message)


def _merged(known: Row | None, message: Message) -> Row:
    """The greatest version decides what a row holds, the least how it began, in whatever order they come."""
    came = Row(
        message.message_id,
        message.publish_time,
        message.period,
        message.message_id,
        message.publish_time,
        message.period,
        message.values,
    )
    if known is None:
        return came
    last = max(known, came, key=lambda row: (row.publish_time, row.message_id))
    first = min(known, came, key=lambda row: (row.first_publish_time, row.first_message_id))
    return last._replace(
        first_message_id=first.first_message_id,
        first_publish_time=first.first_publish_time,
        first_period=first.first_period,
    )


def _columns(value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The columns of a payload: its keys joined by underscores, in lower case."""
    if isinstance(value, dict) and (value or path):
        for key, below in value.items():
            yield from _columns(below, (*path, key))
    elif value is not None:
        yield "_".join(path).lower()


def _months(instant: int) -> int:
    moment = datetime.fromtimestamp(instant // 10**6, UTC)
    return moment.year * 12 + moment.month
