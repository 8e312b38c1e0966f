"""Turns the objects under Firehose's error prefix into rows of `firehose_errors`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lean_ops.aws import raw_tables
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.aws.patience import dependency
from lean_ops.errors import DataFaultError
from lean_ops.identity import to_micros
from lean_ops.ingestion import chunks, firehose_failures
from lean_ops.ingestion.firehose_failures import Failure
from lean_ops.resources import FIREHOSE_ERROR_PREFIX

_ROWS_AT_ONCE = 5_000
# As many as are read well within the function's time.
_OBJECTS_AT_ONCE = 200


@dataclass(frozen=True)
class Collector:
    """Collecting an object again adds nothing, so a missed event is made good by collecting them all."""

    client: Any
    bucket: str
    errors: ErrorTable

    def collect(self, key: str, now: float) -> int:
        """The number of rows that an object added."""
        with dependency():
            stored = self.client.get_object(Bucket=self.bucket, Key=key)
            body = stored["Body"].read()
        failures = self._opened(firehose_failures.read(body))
        rows = firehose_failures.attempts(failures, key, to_micros(stored["LastModified"]), now)
        return sum(len(self.errors.append(run)) for run in chunks.by_count(rows, _ROWS_AT_ONCE))

    def collect_all(self, now: float) -> int:
        """The number of rows that all objects under the error prefix added."""
        return sum(self.collect(key, now) for key in self._keys(FIREHOSE_ERROR_PREFIX))

    def collect_recent(self, now: float, most: int = _OBJECTS_AT_ONCE) -> int:
        """The number of rows that the objects of today and yesterday added.

        Of more than `most` some are drawn, so that none is passed over run after run.
        """
        today = datetime.fromtimestamp(now, UTC)
        kinds = [
            each["Prefix"] for page in self._pages(Delimiter="/") for each in page.get("CommonPrefixes", ())
        ]
        days = [f"{day:%Y/%m/%d}/" for day in (today - timedelta(days=1), today)]
        keys = [key for kind in kinds for day in days for key in self._keys(f"{kind}{day}")]
        drawn = random.sample(keys, min(most, len(keys)))
        return sum(self.collect(key, now) for key in drawn)

    def _keys(self, prefix: str) -> Iterator[str]:
        return (each["Key"] for page in self._pages(Prefix=prefix) for each in page.get("Contents", ()))

    def _pages(self, **options: str) -> Iterable[Any]:
        listing = {"Bucket": self.bucket, "Prefix": FIREHOSE_ERROR_PREFIX, **options}
        pages: Iterable[Any] = self.client.get_paginator("list_objects_v2").paginate(**listing)
        return pages

    def _opened(self, failures: Iterable[Failure]) -> Iterator[Failure]:
        """Data files replaced by the records in them: only so can the books be balanced in messages."""
        for failure in failures:
            try:
                if failure.data_file is None:
                    yield failure
                else:
                    for row in raw_tables.rows_in(self.errors.catalog, failure.data_file):
                        yield failure.of_row(row)
            except (FileNotFoundError, DataFaultError):
                yield failure
