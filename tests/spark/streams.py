"""Seeded streams of messages as a hostile but possible source would send them, in the order of their arrival."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.spark.oracle import EPOCH, Message, Rules

RULES = Rules(key_path="meta.key", period_path="meta.period")
NEWEST_DAY = datetime(2026, 3, 2, tzinfo=UTC)
# Most messages are of today; some are late by a day, over a month's end, or by a whole quarter.
DAYS_LATE = (0, 0, 0, 0, 1, 2, 31, 95)

NUMBERS = (
    "0",
    "-0",
    "0.10",
    "100000000000.50",
    "1E400",
    "-1e-400",
    "12345678901234567890.0123456789",
    "7" * 60,
)
TEXTS = (
    "",
    "x",
    "it's",
    'say "so"',
    "back\\slash",
    "a\x00b",
    "\u2028",
    "Zürich",
    "😀",
    "null",
    "1.0",
    "2026-02",
)
ARRAYS = ("[]", "[ ]", "[1, 2.50,-0]", '["\\u0041", {"b" : [null]}]', "[[], [[1E2]]]", '["]"]')
WORDS = ("true", "false", "null", "null", "{}", "{ }")
KEYS = ("id", "amount", "status", "flag", "tags", "note", "total", "ref")
# Keys that flatten to one name, to a name that is taken, or to none at all.
AWKWARD_KEYS = (
    "a", "A", "a.b", "a_b", "A_B", "a b", "a\\b", "", ".", "..", "\\", "\\e", '"', "'", "`", "é", "É", "9lives",
    "message_id", "Publish_Time", "ingestion_ts", "period_reference", "idempotency_key", "_overflow", "_file", "_pos",
    "line\nbreak", "tab\t", "nul\x00", "k" * 300, "\U0001f600", "\u2028",
)  # fmt: skip
POISON = (
    "", " \n\t", "{", '{"a":', '{"a":"b', '{"a":1}}', '{"a":1} {"b":2}', "[1,2]", '"text"', "17", "null", "NaN",
    '{"a":NaN}', "{'a':1}", '{"a":01}', '{"a":1,}', '{"a":"\\ud800"}', '{"\\udc00":1}', '{"a":"\x01"}', '{"a":.5}',
    '{"a":tru', '{"a":+1}', "\ufeff{}", '{"a":' * 201 + "1" + "}" * 201, "[" * 5000, "<xml/>", '{"a" 1}',
)  # fmt: skip
PERIODS = (
    '"2026-03"',
    '"2026-02"',
    '"2025-12"',
    None,
    "null",
    '"2026-13"',
    '"03/2026"',
    '""',
    "202603",
    "[1]",
    "{}",
)


class Stream:
    """Makes messages; what it has made before, it may send again."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311
        self._sent: list[Message] = []
        self._clock = 1_760_000_000_000

    def take(self, count: int) -> list[Message]:
        """The next messages."""
        until = len(self._sent) + count
        while len(self._sent) < until:
            made = self._pick(
                (60, self._fresh),
                (6, self._redelivered_soon),
                (6, self._redelivered_late),
                (4, self._contradicted),
                (2, self._twins),
                (3, self._same_id_another_time),
                (9, self._poison),
            )()
            self._sent += made
        return self._sent[until - count : until]

    def _pick(self, *choices: tuple[int, Callable[[], list[Message]]]) -> Callable[[], list[Message]]:
        weights, makers = zip(*choices, strict=True)
        return self._rng.choices(
            makers if self._sent else makers[:1], weights if self._sent else weights[:1]
        )[0]

    def _tick(self) -> int:
        self._clock += self._rng.randrange(1, 5000)
        return self._clock

    def _message(self, payload: str) -> Message:
        rng, number = self._rng, len(self._sent)
        moment = NEWEST_DAY - timedelta(days=rng.choice(DAYS_LATE))
        # Often at midnight, where days begin and end.
        offset = rng.choice((0, 86_400_000_000 - 1, rng.randrange(86_400_000_000), number))
        return Message(
            f"m{number}{rng.choice(('', '', '/x', ' ü', chr(39), '%'))}",
            (moment - EPOCH) // timedelta(microseconds=1) + offset,
            self._tick(),
            rng.choice((None, None, None, "", f"envelope-{rng.randrange(40)}")),
            payload,
        )

    def _fresh(self) -> list[Message]:
        return [self._message(self._document())]

    def _poison(self) -> list[Message]:
        return [self._message(self._rng.choice(POISON))]

    def _again(self, message: Message) -> Message:
        return message._replace(ingestion_ts=self._tick())

    def _redelivered_soon(self) -> list[Message]:
        return [self._again(self._rng.choice(self._sent[-4:]))]

    def _redelivered_late(self) -> list[Message]:
        return [self._again(self._rng.choice(self._sent))]

    def _contradicted(self) -> list[Message]:
        """The same message with another payload: the first arrival counts, whichever of them is sound."""
        payload = self._rng.choice((self._document(), self._rng.choice(POISON)))
        return [self._again(self._rng.choice(self._sent))._replace(json_payload=payload)]

    def _twins(self) -> list[Message]:
        """Two payloads of one message that arrive in the same millisecond: their texts decide."""
        one = self._message(self._document())
        return [
            one,
            one._replace(json_payload=self._rng.choice((self._document(), self._rng.choice(POISON)))),
        ]

    def _same_id_another_time(self) -> list[Message]:
        """Another message: an identity is the id together with the publish time."""
        other = self._rng.choice(self._sent)
        return [self._message(self._document())._replace(message_id=other.message_id)]

    def _document(self) -> str:
        rng = self._rng
        members = [(key, self._value(key)) for key in rng.sample(KEYS, rng.randrange(5))]
        members += [(key, self._value(key)) for key in rng.sample(AWKWARD_KEYS, rng.choice((0, 0, 1, 3)))]
        # The source changes while it runs.
        era = len(self._sent) // 40
        if rng.random() < 0.2:
            members.append((f"since{rng.randrange(era + 1)}", self._value("since")))
        if rng.random() < 0.9:
            members.append(("meta", self._object(self._meta())))
        rng.shuffle(members)
        if members and rng.random() < 0.03:
            members.append((members[0][0], self._value("id")))  # a repeated key: the last one counts
        return self._space() + self._object(members) + self._space()

    def _meta(self) -> list[tuple[str, str]]:
        rng = self._rng
        members = []
        key = rng.choice(
            (None, f'"key-{rng.randrange(60)}"', f'"key-{rng.randrange(60)}"', "17.0", '""', "null")
        )
        if key is not None:
            members.append(("key", key))
        period = rng.choice((PERIODS[0], PERIODS[0], *PERIODS))
        if period is not None:
            members.append(("period", period))
        return members

    def _value(self, key: str, depth: int = 0) -> str:
        """Mostly what the key always holds, now and then something of another kind."""
        rng = self._rng
        usual = (NUMBERS, WORDS, ARRAYS, ())[len(key) % 4] if rng.random() < 0.7 else ()
        if usual:
            return rng.choice(usual)
        if depth < 3 and rng.random() < 0.3:
            keys = rng.sample(("b", "B", "c", *AWKWARD_KEYS[:8]), rng.randrange(1, 3))
            return self._object([(inner, self._value(inner, depth + 1)) for inner in keys])
        if rng.random() < 0.6:
            return json.dumps(rng.choice(TEXTS), ensure_ascii=rng.random() < 0.5)
        return rng.choice((*NUMBERS, *ARRAYS, *WORDS))

    def _object(self, members: Sequence[tuple[str, str]]) -> str:
        ascii_only = self._rng.random() < 0.5
        texts = (
            f"{json.dumps(key, ensure_ascii=ascii_only)}{self._space()}:{self._space()}{value}"
            for key, value in members
        )
        return "{" + f"{self._space()},".join(texts) + self._space() + "}"

    def _space(self) -> str:
        return self._rng.choice(("", "", "", "", " ", "\n  ", "\t", "\r\n"))


def messages(seed: int, count: int) -> list[Message]:
    """The first messages of a stream."""
    return Stream(seed).take(count)


def cut(stream: Sequence[Message], parts: int, seed: int) -> list[list[Message]]:
    """The stream in that many pieces at random; what arrived in the same millisecond stays together."""
    rng = random.Random(seed)  # noqa: S311
    places = [
        place
        for place in range(1, len(stream))
        if stream[place].ingestion_ts != stream[place - 1].ingestion_ts
    ]
    edges = [0, *sorted(rng.sample(places, parts - 1)), len(stream)]
    return [list(stream[first:last]) for first, last in pairwise(edges)]
