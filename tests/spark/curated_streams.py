"""Streams of records that are corrected: late, out of order, into other periods, soundly or not."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

from lean_ops.contracts.spec import ContractSpec
from tests.spark.oracle import EPOCH, Identity, Message, Oracle, Row
from tests.spark.streams import RULES, Stream

PII_KEY = b"a key of 32 bytes that only tests use"
OLDEST_DAY = datetime(2023, 7, 31, tzinfo=UTC)
MONTHS_LATE = (0, 0, 0, 0, 1, 2, 5, 13, 30)
KEYS = 24
HOPELESS_KEYS = 4
FORGIVEN = ("paid", "amount")


class Sort(NamedTuple):
    """What a column holds: JSON texts that are sound, and such that are not. None stands for an absent leaf."""

    column: dict[str, object]
    sound: tuple[str | None, ...]
    broken: tuple[str | None, ...] = ()


SORTS = (
    Sort(
        {"name": "order_id", "path": "orderId", "type": "string", "cde": True},
        ('"o-1"', '"o 2"', "17", '"Zürich"', "[1, 2.50 ]", "true"),
        (None, '""', '"  "', "null", '"\\t\\n"'),
    ),
    Sort(
        {"name": "amount", "type": "decimal(10,2)", "cde": True},
        ("1", "12.5", '"12.50"', "-0.01", "1E2", "99999999.99", "0E9"),
        (None, "1.239", '" 12 "', '"NaN"', "100000000", "[1]", "{}", '"1,5"', "null", "true"),
    ),
    Sort(
        {"name": "email", "path": "customer.email", "type": "string", "pii": True},
        ('"ada@in.clear"', '"Zoë@in.clear"', '"a b@in.clear"', None, "null", '["list@in.clear"]'),
    ),
    Sort(
        {"name": "quantity", "type": "int"},
        ("0", "-0", '"7"', "-2147483648", None, "null"),
        ("2147483648", "1.0", '"+1"', '""', '"٣"', "[]"),
    ),
    Sort(
        {"name": "paid", "type": "boolean", "nullable": False},
        ("true", "false", '"true"'),
        (None, '"yes"', "1", '"TRUE"', "null"),
    ),
    Sort(
        {"name": "currency", "type": "string", "nullable": False, "default": "USD"},
        ('"EUR"', '""', None, "null"),
    ),
    Sort({"name": "rate", "type": "double"}, ("0.1", "-0", "1e-400", "5E-324", "17", None), ("1e400", '"x"')),
    Sort(
        {"name": "ordered_at", "path": "orderedAt", "type": "timestamp"},
        ('"2026-01-01T00:00:00Z"', '"2025-12-31 23:59:59.999999-18:00"', '"1900-02-28T01:02:03.5+05:30"', None),
        ('"12:30"', '"2026-01-01"', '"2026-02-29T00:00:00Z"', '"2026-01-01T00:00:00"', "1767225600"),
    ),
    Sort(
        {"name": "seen_at", "path": "seenAt", "type": "timestamp", "format": "epoch_millis"},
        ("1767225600123", '"1767225600000"', None),
        ("1767225600", "1767225600123.0", '"2026-01-01T00:00:00Z"'),
    ),
    Sort(
        {"name": "due", "type": "date"},
        ('"2024-02-29"', '"1900-01-01"', '"9999-12-31"', None),
        ("2024", '"2023-02-29"', '"2024-2-29"', '"2024-02-29T00:00:00Z"'),
    ),
    Sort(
        {"name": "weight", "path": "a\\.b", "type": "decimal(38,10)"},
        ("1234567890123456789012345678.0123456789", "-0.0000000001", None),
        ("0.00000000001", "12345678901234567890123456789"),
    ),
    Sort({"name": "ref", "type": "bigint", "default": 7}, ("9223372036854775807", None), ("9223372036854775808",)),
)  # fmt: skip


UNFORGIVEN = [
    number for number, sort in enumerate(SORTS) if sort.column["name"] in ("order_id", "due", "weight")
]


def contract(topic: str, version: str = "1.0") -> ContractSpec:
    """1.0; 1.1 has a column more, wider numbers, and takes unpaid records; 1.2 takes them without an amount, too."""
    columns = {str(sort.column["name"]): dict(sort.column) for sort in SORTS}
    columns["ref"]["default"] = "7"
    if version != "1.0":
        columns["paid"]["nullable"] = True
        columns["quantity"]["type"] = "bigint"
        columns["amount"]["type"] = "decimal(12,2)"
        columns["note"] = {"name": "note", "path": "meta.note", "type": "string"}
    if version == "1.2":
        columns["amount"]["cde"] = False
    return ContractSpec.model_validate(
        {
            "table_name": topic,
            "version": version,
            "envelope_columns": [
                "idempotency_key", "message_id", "publish_time", "period_reference", "ingestion_ts", "topic_name",
            ],
            "payload_columns": list(columns.values()),
        }
    )  # fmt: skip


class Corrections(Stream):
    """Records of a few keys, each in many versions. What arrives first need not have been published first."""

    def _message(self, payload: str) -> Message:
        rng = self._rng
        message = super()._message(payload)
        day = OLDEST_DAY + timedelta(days=30 * rng.choice(MONTHS_LATE) + rng.choice((0, 0, 1, 17)))
        # Often the same instant: then the ids decide.
        offset = rng.choice((0, 0, 86_400_000_000 - 1, rng.randrange(86_400_000_000)))
        key = rng.choice((None, None, None, "", f"key-{rng.randrange(KEYS)}"))
        publish_time = (day - EPOCH) // timedelta(microseconds=1) + offset
        return message._replace(publish_time=publish_time, idempotency_key=key)

    def _document(self) -> str:
        rng = self._rng
        hopeless = rng.random() < 0.08
        broken = set(rng.sample(range(len(SORTS)), rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 3))))
        if hopeless:
            broken.add(rng.choice(UNFORGIVEN))
        members = {}
        for number, sort in enumerate(SORTS):
            text = rng.choice(sort.broken if number in broken and sort.broken else sort.sound)
            members[str(sort.column.get("path", sort.column["name"]))] = text
        if rng.random() < 0.15:
            # A later contract forgives it.
            members[rng.choice(FORGIVEN)] = None
        present = [(path, text) for path, text in members.items() if text is not None]
        return self._nested([*present, *self._envelope(hopeless)])

    def _envelope(self, hopeless: bool) -> list[tuple[str, str]]:
        rng = self._rng
        key = f"hopeless-{rng.randrange(HOPELESS_KEYS)}" if hopeless else f"key-{rng.randrange(KEYS)}"
        members = [("meta.note", '"n"')] if rng.random() < 0.5 else []
        if rng.random() < 0.95:
            members.append(("meta.key", json.dumps(key)))
        if rng.random() < 0.9:
            month = OLDEST_DAY + timedelta(days=30 * rng.choice(MONTHS_LATE))
            members.append(("meta.period", f'"{month:%Y-%m}"'))
        return members

    def _nested(self, members: list[tuple[str, str]]) -> str:
        plain = [(path.replace("\\.", "."), text) for path, text in members if not _is_inner(path)]
        inner: dict[str, list[tuple[str, str]]] = {}
        for path, text in members:
            if _is_inner(path):
                above, _, key = path.partition(".")
                inner.setdefault(above, []).append((key, text))
        plain += [(above, self._object(keys)) for above, keys in inner.items()]
        self._rng.shuffle(plain)
        return self._object(plain)


def _is_inner(path: str) -> bool:
    return "." in path.replace("\\.", "")


def corrections(seed: int, count: int) -> list[Message]:
    """The first messages of a stream, in the order of their arrival."""
    return Corrections(seed).take(count)


def standardized(messages: list[Message]) -> dict[Identity, Row]:
    """What the first hop makes of messages."""
    oracle = Oracle(RULES)
    oracle.take(messages)
    return oracle.rows


class Supply:
    """Standardized rows of one stream in an order of their own, as many at a time as one asks for."""

    def __init__(self, seed: int, count: int = 2000) -> None:
        rows = list(standardized(corrections(seed, count)).items())
        random.Random(seed).shuffle(rows)  # noqa: S311
        self._rows = iter(rows)

    def take(self, count: int) -> dict[Identity, Row]:
        """The next rows."""
        taken = dict(islice(self._rows, count))
        assert len(taken) == count, "the stream is too short for this test"
        return taken
