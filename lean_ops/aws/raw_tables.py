"""Reads RAW tables without Spark: which messages have arrived, and what a stray data file holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from lean_ops import naming
from lean_ops.aws import row_filters
from lean_ops.errors import DataFaultError
from lean_ops.identity import Identity, to_datetime, to_micros

_DATA_FILE_ROWS = 10_000
_IDENTITY = ("message_id", "publish_time")


def arrived(catalog: Catalog, topic: str, identities: Iterable[Identity]) -> set[Identity]:
    """Those of a topic's messages that are in RAW. Reads the message's publish days only."""
    try:
        table = catalog.load_table(naming.raw_table(topic))
    except NoSuchTableError:
        return set()
    by_day: dict[date, set[Identity]] = defaultdict(set)
    for each in identities:
        by_day[to_datetime(each.publish_time).date()].add(each)
    found: set[Identity] = set()
    for day, wanted in by_day.items():
        here = row_filters.both(
            row_filters.published(day, day),
            row_filters.among("message_id", (each.message_id for each in wanted)),
        )
        scan = table.scan(here, selected_fields=_IDENTITY)
        for batch in scan.to_arrow_batch_reader():
            rows = zip(batch["message_id"].to_pylist(), batch["publish_time"].to_pylist(), strict=True)
            found |= wanted & {Identity(topic, message_id, to_micros(moment)) for message_id, moment in rows}
    return found


def messages(catalog: Catalog, topic: str) -> tuple[int, int]:
    """The number of a topic's rows in RAW, and of its distinct messages. Holds one publish day at a time.

    A message has one publish time, so no day knows a message of another.
    """
    try:
        table = catalog.load_table(naming.raw_table(topic))
    except NoSuchTableError:
        return 0, 0
    rows = distinct = 0
    for part in table.inspect.partitions().to_pylist():
        day = part["partition"]["publish_time_day"]
        found = table.scan(row_filters.published(day, day), selected_fields=_IDENTITY).to_arrow()
        rows += found.num_rows
        distinct += found.group_by(list(_IDENTITY)).aggregate([]).num_rows
    return rows, distinct


def sample(catalog: Catalog, topic: str, count: int) -> list[str]:
    """So many of a topic's payloads, whichever are found first."""
    try:
        table = catalog.load_table(naming.raw_table(topic))
    except NoSuchTableError:
        return []
    found = table.scan(selected_fields=("json_payload",), limit=count).to_arrow()
    payloads: list[str] = found["json_payload"].to_pylist()
    return payloads


def rows_in(catalog: Catalog, path: str) -> Iterator[dict[str, Any]]:
    """The rows of a data file that Firehose wrote and could not commit, `publish_time` in microseconds.

    FileNotFoundError when it is none of ours, DataFaultError when it cannot be read as one.
    """
    topic = next((part.removesuffix("_staging") for part in path.split("/") if part.endswith("_staging")), "")
    try:
        table = catalog.load_table(naming.raw_table(topic))
    except NoSuchTableError as error:
        raise FileNotFoundError(path) from error
    # An error object is input like any other: it must not make us read what is no RAW file.
    if not path.startswith(f"{table.location().rstrip('/')}/") or ".." in path:
        raise FileNotFoundError(path)
    # Read whole: a failure of the store may pass, what then cannot be understood never will.
    with table.io.new_input(path).open() as stream:
        content = stream.read()
    try:
        for batch in pq.ParquetFile(pa.BufferReader(content)).iter_batches(_DATA_FILE_ROWS):
            times = batch["publish_time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            index = batch.schema.get_field_index("publish_time")
            yield from batch.set_column(index, "publish_time", times).to_pylist()
    except (pa.ArrowException, OSError, KeyError, ValueError, ArithmeticError) as error:
        raise DataFaultError(f"no data file of RAW: {type(error).__name__}", path=path) from error
