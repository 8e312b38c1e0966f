"""The same events into Iceberg with dlt: an upsert by key. What it is spared: parsing, duplicates, broken texts.

It compares with both hops of ours, which do all that, keep every digit and audit the books.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

ROOT = Path(__file__).resolve().parents[1]
_PAGE = 5_000


def newest_events(raw: Table) -> list[dict[str, Any]]:
    """The newest event of each key, parsed: dlt refuses a batch that has a key twice."""
    found: dict[str, dict[str, Any]] = {}
    rows = raw.scan(selected_fields=("message_id", "publish_time", "json_payload")).to_arrow().to_pylist()
    for row in sorted(rows, key=lambda row: (row["publish_time"], row["message_id"])):
        try:
            event = json.loads(row["json_payload"])
        except ValueError:
            continue
        key = event["_metadata"]["idempotencyKeyResource"]
        found[key] = event | {"idempotency_key": key, "publish_time": row["publish_time"]}
    return list(found.values())


def upsert(events: list[dict[str, Any]], folder: Path) -> tuple[int, float]:
    """Load the events into an Iceberg table in a folder, with dlt in a process of its own; its rows and seconds."""
    file = folder / "events.json"
    file.write_text(json.dumps(events, default=str), encoding="utf-8")
    variables = os.environ | {
        "PYTHONPATH": f"{ROOT / '.cache' / 'dlt'}:{ROOT}",
        "RUNTIME__DLTHUB_TELEMETRY": "false",
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dlt_way", str(folder)],
        cwd=ROOT, env=variables, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    rows, seconds = done.stdout.split()[-2:]
    return int(rows), float(seconds)


def load(folder: Path) -> None:
    """What the process does; reading its input is not on its clock."""
    import dlt
    from dlt.common.libs.pyiceberg import get_iceberg_tables

    events = json.loads((folder / "events.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=dlt.destinations.filesystem(bucket_url=(folder / "lake").as_uri()),
        dataset_name="bench",
    )

    def pages() -> Iterator[Iterable[dict[str, Any]]]:
        for start in range(0, len(events), _PAGE):
            yield events[start : start + _PAGE]

    resource = dlt.resource(
        pages,
        name="events",
        primary_key="idempotency_key",
        write_disposition={"disposition": "merge", "strategy": "upsert"},
        table_format="iceberg",
        max_table_nesting=0,
    )
    pipeline.run(resource, loader_file_format="parquet")
    seconds = time.monotonic() - started
    print(len(get_iceberg_tables(pipeline, "events")["events"].scan().to_arrow()), seconds)


if __name__ == "__main__":
    load(Path(sys.argv[1]))
