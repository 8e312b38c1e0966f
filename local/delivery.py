"""Delivers Firehose's segments: transform, route, one commit per table, the rest to the error prefix."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lean_ops.resources import DELIVERY
from local.error_prefix import FailedFile, FailedRecord, Failure
from local.rows import Columns
from local.spool import Entry, Segment, Spool
from local.transform import Answer, Destination, Transform, TransformFailedError, events_worth

logger = logging.getLogger("firehose")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0


class StoppedError(Exception):
    """The server is told to end: what is not delivered waits in the spool."""


class Delivery:
    """The delivery stream's only writer."""

    def __init__(
        self,
        spool: Spool,
        transform: Transform,
        catalog: Catalog,
        put_errors: Callable[[Sequence[Failure]], None],
        *,
        commit_seconds: float,
    ) -> None:
        self._spool, self._transform, self._catalog = spool, transform, catalog
        self._put_errors = put_errors
        self._commit_seconds = commit_seconds
        self._stopping = Event()
        self._columns: dict[tuple[str, int], Columns] = {}
        self.delivered = 0

    def run(self) -> None:
        """Deliver until the spool is closed."""
        try:
            while (segment := self._spool.next_segment()) is not None:
                self._deliver(segment)
                self._spool.delivered(segment)
        except StoppedError:
            logger.info("stopped in the middle of a segment: it will be delivered again")

    def stop(self) -> None:
        """End after the current step, whatever it waits for."""
        self._stopping.set()
        self._spool.close()

    def _deliver(self, segment: Segment) -> None:
        entries = list(segment.entries())
        routed: dict[Destination, list[Entry]] = defaultdict(list)
        failures: list[Failure] = []
        for run in events_worth(entries):
            failures += self._route(run, routed)
        for destination, group in routed.items():
            failures += self._write(destination, group)
        if failures:
            codes = dict(Counter(failure.code for failure in failures))  # the records may be personal
            logger.warning("of %s records to the error prefix: %s", len(entries), codes)
            self._until_done(lambda: self._put_errors(failures), "write to the error prefix")
        self.delivered += len(entries)

    def _route(self, run: Sequence[Entry], routed: dict[Destination, list[Entry]]) -> Iterable[FailedRecord]:
        try:
            answers = self._transform(run)
        except TransformFailedError as error:
            attempts = DELIVERY.transform_attempts
            return [
                FailedRecord("processing-failed", entry, "Lambda.FunctionError", str(error), attempts)
                for entry in run
            ]
        failures = []
        for entry in run:
            answer = answers.get(entry.record_id)
            fault = _fault(answer)
            if fault:
                failures.append(FailedRecord("processing-failed", entry, *fault))
            elif answer is not None and answer.result == "Ok" and answer.destination:
                routed[answer.destination].append(replace(entry, data=answer.data))
        return failures

    def _write(self, destination: Destination, entries: Sequence[Entry]) -> Iterable[Failure]:
        refused = partial(FailedRecord, "iceberg-failed", destination=destination)
        if destination.operation != "insert":
            reason = f"{destination.operation}: the stream has no unique keys"
            return [refused(entry, "Iceberg.UnsupportedOperation", reason) for entry in entries]
        name = (destination.destination_database_name, destination.destination_table_name)
        try:
            table = self._until_done(lambda: self._catalog.load_table(name), "load a table", NoSuchTableError)
            rows, refusals = self._columns_of(table).decode([entry.data for entry in entries])
        except NoSuchTableError as error:
            return [refused(entry, "Iceberg.NoSuchTable", str(error)) for entry in entries]
        except (KeyError, pa.ArrowException) as error:
            return [refused(entry, "Iceberg.UnsupportedType", str(error)) for entry in entries]
        unfit = {
            refusal.index: refused(entries[refusal.index], refusal.code, refusal.message)
            for refusal in refusals
        }
        fit = [entry for index, entry in enumerate(entries) if index not in unfit]
        return [*unfit.values(), *(self._commit(table, rows, destination, fit) if fit else ())]

    def _columns_of(self, table: Table) -> Columns:
        key = (".".join(table.name()), table.metadata.current_schema_id)
        if key not in self._columns:
            self._columns[key] = Columns(table.schema())
        return self._columns[key]

    def _commit(
        self, table: Table, rows: pa.Table, destination: Destination, entries: Sequence[Entry]
    ) -> Iterable[Failure]:
        """The files are written once; only the commit is tried again when another writer was faster."""
        files: list[DataFile] = []
        attempt, reason = 0, ""
        for attempt in self._attempts(self._commit_seconds):
            try:
                files = files or list(_dataframe_to_data_files(table.metadata, rows, table.io))
                _append(table.refresh() if attempt > 1 else table, files)
            except Exception as error:  # noqa: BLE001 (a lost race, a catalog that is away: all worth a retry)
                reason = f"{type(error).__name__}: {error}"
                logger.warning("commit to %s, attempt %s: %s", destination, attempt, reason)
            else:
                return ()
        if files:
            return [FailedFile(file.file_path, destination, reason, attempt) for file in files]
        code = "Iceberg.WriteFailed"
        return [FailedRecord("iceberg-failed", each, code, reason, attempt, destination) for each in entries]

    def _until_done(self, action: Callable[[], Any], what: str, *passing: type[Exception]) -> Any:
        """Blocks further delivery until it succeeds, as Firehose does rather than lose a record."""
        for attempt in self._attempts(math.inf):
            try:
                return action()
            except passing:
                raise
            except Exception as error:  # noqa: BLE001 (nothing here may end the delivery thread)
                logger.warning("%s, attempt %s: %s: %s", what, attempt, type(error).__name__, error)
        raise StoppedError

    def _attempts(self, seconds: float) -> Iterator[int]:
        """Numbers attempts, with growing pauses in between, until the time is over."""
        deadline = time.monotonic() + seconds
        for attempt in itertools.count(1):
            yield attempt
            if time.monotonic() > deadline:
                return
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(attempt, 10), _LONGEST_PAUSE_SECONDS)
            if self._stopping.wait(pause):
                raise StoppedError


def _append(table: Table, files: Sequence[DataFile]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for file in files:
            snapshot.append_data_file(file)


def _fault(answer: Answer | None) -> tuple[str, str] | None:
    if answer is None:
        return "Lambda.MissingRecordId", "the function returned no record of this id"
    if answer.result == "Ok" and answer.destination is None:
        return "Lambda.MissingRoute", "the function returned no otfMetadata"
    if answer.result not in ("Ok", "Dropped"):
        return "Lambda.ProcessingFailedStatus", f"the function returned {answer.result}"
    return None
