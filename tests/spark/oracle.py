"""The Standardized table, its errors and its books a second time, in plain Python: nothing is shared with the jobs.

It reads the messages one by one, in the order in which they arrived. Payload leaves are compared by their path:
which column a path got, or whether it went to `_overflow`, is the table's own business.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from tests.flatten_oracle import judge

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Identity = tuple[str, int]


class Message(NamedTuple):
    """A row of RAW; `publish_time` in microseconds."""

    message_id: str
    publish_time: int
    ingestion_ts: int
    idempotency_key: str | None
    json_payload: str

    @property
    def identity(self) -> Identity:
        return self.message_id, self.publish_time

    @property
    def published(self) -> datetime:
        return EPOCH + timedelta(microseconds=self.publish_time)


class Rules(NamedTuple):
    """What a topic says about its payloads."""

    key_path: str | None = None
    period_path: str | None = None
    lifo: bool = False


class Row(NamedTuple):
    """A row of Standardized, besides its identity."""

    ingestion_ts: int
    idempotency_key: str | None
    period_reference: str
    leaves: dict[str, str]


class Fault(NamedTuple):
    """A row of parse_errors, besides its identity."""

    ingestion_ts: int
    idempotency_key: str | None
    json_payload: str
    code: str


class Oracle:
    """What the tables hold after the batches that it was shown; `drift` is what the last one changed, by path."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.rows: dict[Identity, Row] = {}
        self.faults: dict[Identity, Fault] = {}
        self._firsts: dict[Identity, Message] = {}
        self._kinds: dict[str, set[str]] = {}
        self.drift: set[tuple[str, str]] = set()

    def take(self, batch: Iterable[Message]) -> dict[str, int]:
        """Show it the next batch, and get the batch's books."""
        copies: dict[Identity, list[Message]] = defaultdict(list)
        for message in batch:
            copies[message.identity].append(message)
        known = {identity for identity in copies if identity in self.rows or identity in self.faults}
        fresh: list[Message] = []
        repeated: list[Message] = []
        for identity, messages in copies.items():
            messages.sort(key=arrival)
            self._firsts[identity] = min(self._firsts.get(identity, messages[0]), messages[0], key=arrival)
            skip = 0 if identity in known else 1
            fresh += messages[:skip]
            repeated += messages[skip:]
        return {
            "source_rows": len(fresh) + len(repeated),
            "source_messages": len(copies),
            "source_fingerprint": fingerprint(copies),
            "known_messages": len(known),
            "known_fingerprint": fingerprint(known),
            "redelivered_rows": len(repeated),
            "conflicting_rows": sum(self._conflicts(message) for message in repeated),
            **self._settle(fresh),
        }

    def _conflicts(self, message: Message) -> bool:
        return message.json_payload != self._firsts[message.identity].json_payload

    def _settle(self, fresh: list[Message]) -> dict[str, int]:
        rows: dict[Identity, Row] = {}
        faults: dict[Identity, Fault] = {}
        kinds: dict[str, set[str]] = defaultdict(set)
        nonsense = 0
        for message in fresh:
            found = _judge(message.json_payload)
            if isinstance(found, str):
                faults[message.identity] = Fault(*message[2:], found)
                continue
            leaves = {path: text for path, (_, text) in found.items()}
            period = leaves.get(self.rules.period_path or "")
            rows[message.identity] = Row(
                message.ingestion_ts,
                message.idempotency_key or leaves.get(self.rules.key_path or "") or None,
                period if period is not None and is_month(period) else f"{message.published:%Y-%m}",
                leaves,
            )
        kept = latest(rows) if self.rules.lifo else rows
        for message in fresh:
            if message.identity in kept:
                found = _judge(message.json_payload)
                assert not isinstance(found, str)
                for path, (kind, text) in found.items():
                    kinds[path].add(kind)
                    nonsense += path == self.rules.period_path and not is_month(text)
        self._learn(kinds)
        self.rows |= kept
        self.faults |= faults
        return {
            "added_rows": len(kept),
            "added_fingerprint": fingerprint(kept),
            "error_messages": len(faults),
            "error_fingerprint": fingerprint(faults),
            "superseded_messages": len(rows) - len(kept),
            "superseded_fingerprint": fingerprint(rows.keys() - kept.keys()),
            "nonsense_periods": nonsense,
        }

    def _learn(self, seen: dict[str, set[str]]) -> None:
        self.drift = {("ADDED", path) for path in seen if path not in self._kinds}
        self.drift |= {
            ("TYPE_CHANGED", path) for path, old in self._kinds.items() if seen.get(path, set()) - old
        }
        for path, kinds in seen.items():
            self._kinds.setdefault(path, set()).update(kinds)


# The same messages are shown to many oracles.
_judge = cache(judge)


def latest(rows: dict[Identity, Row]) -> dict[Identity, Row]:
    """The rows that no other one with the same key follows."""
    greatest: dict[str, tuple[int, str]] = {}
    for (message_id, published), row in rows.items():
        if row.idempotency_key is not None:
            version = greatest.get(row.idempotency_key, (published, message_id))
            greatest[row.idempotency_key] = max(version, (published, message_id))
    return {
        (message_id, published): row
        for (message_id, published), row in rows.items()
        if row.idempotency_key is None or greatest[row.idempotency_key] == (published, message_id)
    }


def is_month(text: str) -> bool:
    """Whether a text is a month from 1900-01 to 2999-12."""
    year, dash, month = text[:4], text[4:5], text[5:]
    digits = year.isascii() and year.isdigit() and month.isascii() and month.isdigit()
    return digits and dash == "-" and len(month) == 2 and 1900 <= int(year) <= 2999 and 1 <= int(month) <= 12


def fingerprint(identities: Iterable[Identity]) -> int:
    """The sum of 60 bits of the MD5 of each identity."""
    texts = (f"{message_id}\x1f{micros}".encode() for message_id, micros in identities)
    return sum(int(hashlib.md5(text).hexdigest()[:15], 16) for text in texts)  # noqa: S324


def arrival(message: Message) -> tuple[int, str]:
    """Which delivery of a message is the first."""
    return message.ingestion_ts, message.json_payload
