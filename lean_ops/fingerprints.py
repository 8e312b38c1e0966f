"""A fingerprint of a set of messages: the sum of a hash of each identity, so a loss and a duplicate cannot cancel.

The hash is the first 15 hex digits (60 bits) of the MD5 of `message_id`, a unit separator and `publish_time` in
epoch microseconds: every engine has MD5, and a decimal sum of 60-bit numbers never overflows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

Dialect = Literal["duckdb", "athena"]

SEPARATOR = "\x1f"
BITS = 60
_DIGITS = BITS // 4
_SQL: dict[Dialect, str] = {
    "duckdb": (
        "cast(('0x' || substr(md5({message_id} || chr(31) || cast(epoch_us({publish_time}) as varchar)), 1, 15))"
        "::ubigint as decimal(38, 0))"
    ),
    "athena": (
        "cast(from_base(substr(lower(to_hex(md5(to_utf8({message_id} || chr(31) || cast("
        "date_diff('microsecond', from_iso8601_timestamp('1970-01-01T00:00:00Z'), {publish_time}) as varchar))))), "
        "1, 15), 16) as decimal(38, 0))"
    ),
}


def of_message(message_id: str, publish_micros: int) -> int:
    """The hash of one identity."""
    text = f"{message_id}{SEPARATOR}{publish_micros}"
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS], 16)


def of_messages(identities: Iterable[tuple[str, int]]) -> int:
    """The fingerprint of a set of identities."""
    return sum(of_message(message_id, micros) for message_id, micros in identities)


def sql(dialect: Dialect, message_id: str = "message_id", publish_time: str = "publish_time") -> str:
    """The hash of one identity as an expression; sum it for the fingerprint."""
    return _SQL[dialect].format(message_id=message_id, publish_time=publish_time)
