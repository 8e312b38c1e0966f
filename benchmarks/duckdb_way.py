"""A pipeline written by hand in DuckDB: files in, a file out. No Iceberg, no exact numbers, no audit."""

from __future__ import annotations

from pathlib import Path

import duckdb
from pyiceberg.table import Table

_LEAVES = {
    "event_timestamp": ("$.event.timestamp", "timestamptz"),
    "user_id": ("$.event.userId", "varchar"),
    "event_type": ("$.event.eventType", "varchar"),
    "session_id": ("$.sessionId", "varchar"),
    "duration_ms": ("$.event.durationMs", "bigint"),
    "value": ("$.event.value", "decimal(18,2)"),
    "is_test": ("$.event.isTest", "boolean"),
    "ip_address": ("$.event.metadata.ipAddress", "varchar"),
    "device_id": ("$.event.metadata.deviceId", "varchar"),
    "user_agent": ("$.event.metadata.userAgent", "varchar"),
}


def both_hops(raw: Table, folder: Path) -> int:
    """RAW's files → standardized → curated, each a Parquet file; returns the curated rows."""
    files = [task.file.file_path for task in raw.scan().plan_files()]
    key, period = "$._metadata.idempotencyKeyResource", "$._metadata.periodReference"
    paths = [key, period, *(path for path, _ in _LEAVES.values())]
    columns = ", ".join(f"v[{place}] as {name}" for place, name in enumerate(_LEAVES, start=3))
    casts = ", ".join(f"try_cast({name} as {kind}) as {name}" for name, (_, kind) in _LEAVES.items())
    standardized, curated = folder / "standardized.parquet", folder / "curated.parquet"
    with duckdb.connect() as connection:
        connection.execute("set threads = 2")
        connection.execute(
            f"""copy (
                select message_id, publish_time, v[1] as idempotency_key, v[2] as period_reference, {columns}
                from (
                    select message_id, publish_time, json_extract_string(json_payload, ?) as v
                    from (select distinct on (message_id, publish_time) * from read_parquet(?)
                          where json_valid(json_payload))
                )
            ) to '{standardized}' (format parquet, compression zstd)""",
            [paths, files],
        )
        connection.execute(
            f"""copy (
                select message_id, publish_time, idempotency_key, period_reference, {casts}
                from read_parquet('{standardized}')
                where event_timestamp is not null and user_id is not null and event_type is not null
                qualify row_number() over (
                    partition by idempotency_key order by publish_time desc, message_id desc
                ) = 1
            ) to '{curated}' (format parquet, compression zstd)"""
        )
        counted = connection.execute(f"select count(*) from '{curated}'").fetchone()
    return int(counted[0]) if counted else 0
