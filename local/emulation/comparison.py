"""Compares what the tables hold with the truth: message by message, key by key, value by value."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from lean_ops.fingerprints import of_messages
from local.emulation.expectation import Expectation, Row
from local.emulation.found import Found
from local.emulation.payloads import PERSONAL

_SHOWN = 3

K = TypeVar("K", bound=Hashable)


class Check(NamedTuple):
    """A statement about one topic, whether it holds, and in what it does not."""

    topic: str
    statement: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True)
class Comparison:
    """One topic. `entry` says where its messages went in: only the queue's processor suppresses duplicates."""

    expected: Expectation
    found: Found
    entry: str
    pii_key: bytes

    def checks(self) -> Iterator[Check]:
        yield from self._raw()
        yield self._dead_letters()
        yield self._facts("Standardized", self.expected.standardized, self.found.standardized())
        yield self._facts("parse errors", self.expected.parse_errors, self.found.parse_errors())
        if self.expected.processed:
            yield from self._curated()
            yield from self._drift()
        else:
            rows = len(self.found.curated(()))
            yield self._check("Curated does not exist: no contract is in force", not rows, f"{rows} rows")

    def _raw(self) -> Iterator[Check]:
        rows = self.found.raw()
        yield self._facts("RAW, byte for byte", self.expected.raw, set(rows))
        extra = len(rows) - len({identity for identity, _ in rows})
        least = self.expected.forgotten + (self.expected.again if self.entry == "firehose" else 0)
        statement = f"RAW has {extra} redelivered rows; {least} came past the processor"
        yield self._check(statement, extra >= least, f"at least {least} expected")

    def _dead_letters(self) -> Check:
        found, codes = Counter(self.found.dead_letters()), Counter[str]()
        for (_, code), count in self.expected.dead_letters.items():
            codes[code] += count
        detail = "; ".join(f"{body[:40]} {code}" for body, code in _some(found - self.expected.dead_letters))
        statement = f"dead letters ({_listed(codes)})"
        return self._check(statement, found == self.expected.dead_letters, detail or "some are missing")

    def _curated(self) -> Iterator[Check]:
        expected, rows = self.expected, self._rows()
        yield self._errors()
        doubled = [key for key, count in Counter(key for key, _ in rows).items() if count > 1]
        yield self._check("duplicates: 0 keys with two rows", not doubled, ", ".join(_some(doubled)))
        by_key = dict(rows)
        yield self._rows_equal(by_key)
        ended = len(by_key) + expected.superseded + len(expected.errors)
        balance = f"{len(by_key)} current + {expected.superseded} superseded + {len(expected.errors)} errors"
        stored = len(self.found.standardized())
        yield self._check(f"Standardized {stored} = {balance}", stored == ended, f"{ended}")
        seen = Expectation(expected.topic, processed=True, rows=by_key)
        moved = len(expected.moved)
        yield self._check(
            f"cross-period: {moved} keys moved", seen.moved == expected.moved, f"{len(seen.moved)}"
        )
        yield self._same("keys by period", expected.periods, seen.periods)
        yield self._same("corrected keys by months of delay", expected.delays, seen.delays)

    def _errors(self) -> Check:
        truth = {identity: (each.code, each.column) for identity, each in self.expected.errors.items()}
        codes = Counter(f"{code} {column}" for code, column in truth.values())
        return self._facts(f"errors ({_listed(codes)})", truth, self.found.errors())

    def _rows(self) -> list[tuple[str, Row]]:
        columns = list(next(iter(self.expected.rows.values())).values) if self.expected.rows else []
        return [
            (row[0], Row._make((*row[1:7], dict(zip(columns, row[7:], strict=True)))))
            for row in self.found.curated(columns)
        ]

    def _rows_equal(self, found: Mapping[str, Row]) -> Check:
        truth = {key: self._as_stored(row) for key, row in self.expected.rows.items()}
        fingerprint = _fingerprint((row.message_id, row.publish_time) for row in truth.values())
        statement = f"Curated, value by value: {len(truth)} keys [{fingerprint}]"
        return self._check(statement, truth == found, _differences(truth, list(found.items())))

    def _as_stored(self, row: Row) -> Row:
        hashed: dict[str, str | None] = {
            column: hmac.new(self.pii_key, text.encode(), hashlib.sha256).hexdigest()
            for column in PERSONAL[self.expected.topic]
            if (text := row.values.get(column)) is not None
        }
        return row._replace(values=row.values | hashed)

    def _drift(self) -> Iterator[Check]:
        expected, told = self.expected, self.found.drift()
        truth = {(column, "ADDED") for column in expected.added_columns}
        truth |= {(column, "TYPE_CHANGED") for column in expected.flipped_columns}
        flips = ", ".join(sorted(expected.flipped_columns)) or "none"
        new = ", ".join(sorted(expected.drifted)) or "none"
        off = ", ".join(f"{action} {column}" for column, action in _some(told ^ truth))
        yield self._check(f"drift log: new {new}; type changed {flips}", told == truth, off)
        for column, values in sorted(expected.drifted.items()):
            yield self._facts(f"new column {column}", values, self.found.drifted(column))

    def _facts(self, what: str, truth: Mapping[Any, Any], found: Iterable[tuple[Any, Any]]) -> Check:
        pairs = list(found)
        identities = [identity for identity, _ in pairs]
        statement = f"{what}: {len(truth)} messages [{_fingerprint(truth)}]"
        same = (
            len(pairs) == len(truth)
            and dict(pairs) == truth
            and of_messages(identities) == of_messages(truth)
        )
        return self._check(statement, same, _differences(truth, pairs))

    def _same(self, what: str, truth: Counter[K], found: Counter[K]) -> Check:
        return self._check(f"{what} ({_listed(truth)})", truth == found, _listed(found))

    def _check(self, statement: str, passed: bool, detail: str) -> Check:
        return Check(self.expected.topic, statement, passed, "" if passed else f"found: {detail}")


def _differences(truth: Mapping[Any, Any], found: list[tuple[Any, Any]]) -> str:
    held = dict(found)
    missing = [key for key in truth if key not in held]
    foreign = [key for key in held if key not in truth]
    other = [
        f"{key}: {held[key]} instead of {truth[key]}"
        for key in truth
        if held.get(key, truth[key]) != truth[key]
    ]
    doubled = len(found) - len(held)
    words = [
        f"{len(keys)} {word} ({', '.join(map(str, _some(keys)))})"
        for word, keys in (("missing", missing), ("foreign", foreign), ("different", other))
        if keys
    ]
    return "; ".join([*words, *([f"{doubled} doubled"] if doubled else [])])


def _fingerprint(identities: Iterable[tuple[str, int]]) -> str:
    return f"{of_messages(identities) % 16**8:08x}"


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())) or "none"


def _some(items: Iterable[K]) -> list[K]:
    return list(islice(items, _SHOWN))
