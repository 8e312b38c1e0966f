"""Seeded mixed events of about 600 bytes, as RAW holds them: the same stream for every contender."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg.table import Table

START = datetime(2026, 1, 1, tzinfo=UTC)
DUPLICATES, CORRECTIONS, BROKEN, DRIFTED = 0.03, 0.03, 0.005, 0.001


def payload(rng: random.Random, key: str, moment: datetime, number: int) -> str:
    """One event as its source would write it."""
    drift = f',"campaign":"spring-{number % 7}"' if rng.random() < DRIFTED else ""
    return (
        f'{{"_metadata":{{"idempotencyKeyResource":"{key}","periodReference":"{moment:%Y-%m}","source":"web",'
        f'"traceId":"{rng.getrandbits(128):032x}"}},"sessionId":"session-{number // 9:09d}","event":{{'
        f'"timestamp":"{moment:%Y-%m-%dT%H:%M:%S}.{number % 1000:03d}Z","userId":"user-{rng.randrange(200_000)}",'
        f'"eventType":"{rng.choice(("click", "view", "purchase"))}","verb":"press",'
        f'"durationMs":{rng.randrange(90_000)},"value":{rng.randrange(1_000_000) / 100:.2f},'
        f'"isTest":{"true" if rng.random() < 0.1 else "false"},"tags":["a",{rng.randrange(9)}.50],'
        f'"metadata":{{"ipAddress":"10.{rng.randrange(256)}.{rng.randrange(256)}.9",'
        f'"deviceId":"device-{number % 5000}",'
        f'"userAgent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120"}}}},'
        f'"note":"{rng.getrandbits(256):064x}"{drift}}}'
    )


def rows(
    count: int, seed: int = 1, days: int = 3, offset: int = 0, start: datetime = START
) -> Iterator[dict[str, object]]:
    """RAW rows: fresh events, redeliveries, corrections and broken text, spread over some publish days."""
    rng = random.Random(seed)
    recent: list[dict[str, object]] = []
    for number in range(offset, offset + count):
        if recent and rng.random() < DUPLICATES:
            yield rng.choice(recent) | {"ingestion_ts": number}
            continue
        moment = start + timedelta(
            seconds=(number - offset) * days * 86_400 / count, microseconds=number % 1_000_000
        )
        key = f"key-{rng.randrange(number + 1) if rng.random() < CORRECTIONS else number:012d}"
        text = payload(rng, key, moment, number)
        if rng.random() < BROKEN:
            text = text[: rng.randrange(len(text))]
        row = {
            "message_id": f"message-{number:012d}",
            "topic_name": "events",
            "publish_time": moment,
            "ingestion_ts": number,
            "idempotency_key": None,
            "json_payload": text,
        }
        recent = [*recent[-99:], row]
        yield row


def fill_raw(
    table: Table,
    count: int,
    seed: int = 1,
    days: int = 3,
    commits: int = 10,
    offset: int = 0,
    start: datetime = START,
) -> int:
    """Append events to RAW in a number of commits; returns the bytes of their payloads."""
    schema, total = table.schema().as_arrow(), 0
    stream = rows(count, seed, days, offset, start)
    for index in range(commits):
        size = count // commits + (index < count % commits)
        batch = [next(stream) for _ in range(size)]
        total += sum(len(str(row["json_payload"])) for row in batch)
        table.append(pa.Table.from_pylist(batch, schema=schema))
    return total
