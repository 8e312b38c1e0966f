"""The traffic of an emulation: seeded, so that a seed, a size and a first month give the same messages everywhere.

Keys are numbered by topic. Day 1 publishes each key once, on one day in each of three months; whatever comes later
refers to a key by its number, so nothing has to be remembered between the days.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final, Literal

from msgspec.structs import replace

from local.emulation import payloads
from local.emulation.injection import InjectionSpec, Trouble
from local.emulation.message import Message, micros
from local.emulation.payloads import Written

Day = Literal["day1", "day2", "day4"]

SHARES: Final = {"orders": 0.5, "events": 0.35, "payments": 0.15}
MONTHS: Final = 3  # of day 1
LATEST: Final = 14  # months by which a correction of day 4 is late
_HOUR = 3600 * 10**6


@dataclass(frozen=True)
class _Place:
    """Where a message stands: its day, its index there, the number of its key, its instant and its period."""

    day: Day
    topic: str
    index: int
    number: int
    instant: int
    period: str


@dataclass(frozen=True)
class Traffic:
    """Three days of traffic; `records` is the size of day 1, `anchor` its first month."""

    seed: int
    anchor: date
    records: int
    injection: InjectionSpec

    def of(self, day: Day, topic: str) -> Iterator[Message]:
        """A topic's messages of a day."""
        make = {"day1": self._sound, "day2": self._troubled, "day4": self._late}[day]
        return (make(topic, index) for index in range(self.size(day, topic)))

    def size(self, day: Day, topic: str) -> int:
        """How many messages of a topic a day has."""
        keys = max(MONTHS, round(self.records * SHARES[topic]))
        if day == "day1":
            return keys
        # Enough for every kind of trouble, new and corrected, and for every delay.
        return max(keys // 5, 2 * len(self._kinds)) if day == "day2" else max(keys // 20, 2 * (LATEST + 1))

    @property
    def _kinds(self) -> list[Trouble]:
        return [kind for kind, share in self.injection.shares.items() if share]

    def _sound(self, topic: str, number: int) -> Message:
        instant, period = self._first(topic, number)
        place = _Place("day1", topic, number, number, instant, period)
        return self._message(place, self._written(place))

    def _troubled(self, topic: str, index: int) -> Message:
        rng = self._rng("day2-trouble", topic, index)
        kind = self._kind(rng, index)
        keys = self.size("day1", topic)
        # Faults hit corrections as well as new records: an invalid correction must not hide the valid version.
        corrects = kind == "correction" or (kind in ("missing_cde", "malformed_timestamp") and index % 2 == 1)
        number = rng.randrange(keys) if corrects else keys + index
        month = MONTHS if not corrects else self._month(topic, number) + (rng.random() < 0.25)
        instant = self._instant(MONTHS, 10 + index % 2) + index * 10_000
        period = self._period(month)
        place = _Place("day2", topic, index, number, instant, period)
        written = _troubled(kind, topic, self._written(place), index)
        message = self._message(place, written)
        return _mistreated(message, kind, rng)

    def _late(self, topic: str, index: int) -> Message:
        """A correction that is 0 to 14 months late, into another period than its key's first."""
        keys, delay = self.size("day1", topic), index % (LATEST + 1)
        number = self._rng("day4-key", topic, index).randrange(keys)
        month = self._month(topic, number) + delay
        instant = self._instant(month, 10) + number * 10_000 + _HOUR + index
        period = self._period(month if delay else month + 1)
        place = _Place("day4", topic, index, number, instant, period)
        return self._message(place, self._written(place))

    def _kind(self, rng: random.Random, index: int) -> Trouble | None:
        if index < 2 * len(self._kinds):
            return self._kinds[index // 2]
        drawn = rng.random()
        for kind, share in self.injection.shares.items():
            drawn -= share
            if drawn < 0:
                return kind
        return None

    def _first(self, topic: str, number: int) -> tuple[int, str]:
        month = self._month(topic, number)
        return self._instant(month, 10) + number * 10_000, self._period(month)

    def _month(self, topic: str, number: int) -> int:
        """The month in which a key of day 1 is published first, counted from the anchor."""
        return number * MONTHS // self.size("day1", topic)

    def _instant(self, month: int, day: int) -> int:
        first = _later(self.anchor, month)
        return micros(datetime(first.year, first.month, day, 8, tzinfo=UTC))

    def _period(self, month: int) -> str:
        return f"{_later(self.anchor, month):%Y-%m}"

    def _rng(self, *words: object) -> random.Random:
        return random.Random("/".join(map(str, (self.seed, *words))))  # noqa: S311 (no secret)

    def _written(self, place: _Place) -> Written:
        rng = self._rng(place.day, place.topic, place.index)
        key = self._key(place.topic, place.number)
        return payloads.SOURCES[place.topic](rng, key, place.instant, place.period)

    def _key(self, topic: str, number: int) -> str:
        return f"{topic[:-1]}-{self.seed}-{number:08d}"

    def _message(self, place: _Place, written: Written) -> Message:
        return Message(
            topic=place.topic,
            message_id=f"{place.topic}-{place.day}-{self.seed}-{place.index:08d}",
            publish_time=place.instant,
            payload=payloads.encode(written.payload),
            key=self._key(place.topic, place.number),
            period=place.period,
            violation=written.violation,
            values=written.values,
            drifted=dict(written.drifted),
            flipped=written.flipped,
        )


def anchor_of(today: date) -> date:
    """The latest first month after which even the latest correction lies in the past."""
    return _later(today.replace(day=1), -(MONTHS + LATEST))


def _later(month: date, months: int) -> date:
    years, rest = divmod(month.month - 1 + months, 12)
    return date(month.year + years, rest + 1, 1)


def _troubled(kind: Trouble | None, topic: str, sound: Written, index: int) -> Written:
    """What is wrong inside the payload."""
    match kind:
        case "new_column":
            return payloads.with_new_column(topic, sound)
        case "vanished_column":
            return payloads.with_vanished_columns(topic, sound)
        case "type_flip":
            return payloads.with_flipped_type(topic, sound)
        case "missing_cde":
            return payloads.without_cde(topic, sound, blank=index % 4 > 1)
        case "malformed_timestamp":
            return payloads.with_malformed_timestamp(topic, sound, words=index % 4 > 1)
    return sound


def _mistreated(message: Message, kind: Trouble | None, rng: random.Random) -> Message:
    """What goes wrong around the payload."""
    lost: dict[str, Any] = {"key": "", "period": "", "values": {}, "trouble": kind or ""}
    match kind:
        case "duplicate":
            return replace(message, trouble=kind, again=1)
        case "forgotten_duplicate":
            return replace(message, trouble=kind, forgotten=1)
        case "empty_payload":
            return replace(message, payload="", parse_error="EMPTY", **lost)
        case "cut_off_payload":
            cut = message.payload[: rng.randrange(1, len(message.payload) - 1)]
            return replace(message, payload=cut, parse_error="CUT_OFF", **lost)
        case "broken_envelope":
            body, code = _broken(message.message_id, rng)
            return replace(message, payload=body, dead_letter=code, **lost)
    return replace(message, trouble=kind or "")


def _broken(message_id: str, rng: random.Random) -> tuple[str, str]:
    return rng.choice(
        (
            (f"no envelope {message_id}", "NOT_JSON"),
            (f'{{"message_id":"{message_id}"}}', "WRONG_SHAPE"),
            (f'["{message_id}"]', "WRONG_SHAPE"),
        )
    )
