"""Turns the objects under Firehose's error prefix into rows of `firehose_errors`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lean_ops import chunks, firehose_failures
from lean_ops.aws import raw_tables
from lean_ops.aws.error_tables import ErrorTable
from lean_ops.aws.patience import dependency
from lean_ops.errors import DataFaultError
from lean_ops.firehose_failures import Failure
from lean_ops.identity import to_micros
from lean_ops.resources import FIREHOSE_ERROR_PREFIX

_ROWS_AT_ONCE = 5_000


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
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=FIREHOSE_ERROR_PREFIX
        )
        keys = (each["Key"] for page in pages for each in page.get("Contents", ()))
        return sum(self.collect(key, now) for key in keys)

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
