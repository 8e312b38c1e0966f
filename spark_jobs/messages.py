"""The messages of a batch on their way into Standardized.

Who is new, who is known and who comes twice is decided here, on identities alone; payloads are read, taken apart
and written by tasks that get whole files of RAW. A small batch does the same in this process: starting tasks costs
more than a few thousand messages do. Which way is taken changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyspark.sql import SparkSession

from lean_ops.aws.table_files import TableFiles
from lean_ops.batch.accounting import Audit
from lean_ops.errors import LeanOpsError
from spark_jobs import parse_errors, payload_tasks, versions
from spark_jobs.arrivals import Arrivals
from spark_jobs.batch_tables import BatchTables
from spark_jobs.identities import Hashed, Ledger, Mask, Numbers, hashes, marked, numbered, together, total
from spark_jobs.payload_tasks import Part, Taken, Targets
from spark_jobs.pieces import Here, OnExecutors, Run
from spark_jobs.transforms.discovery import Discovered, summarize
from spark_jobs.transforms.payloads import TableShape
from spark_jobs.work import OpenBatch

DRIVER_ROWS = 20_000
DRIVER_BYTES = 32 * 1024 * 1024

_NONE: Hashed = np.empty(0, dtype=np.uint64)
_NOWHERE: Numbers = np.empty(0, dtype=np.int64)


@dataclass
class Messages:
    """The rows of a range: those that bring a message again, and those that become rows or errors.

    All masks are over the rows as they arrived; `messages` numbers their identities.
    """

    tables: BatchTables
    run: Run
    arrivals: Arrivals
    messages: Numbers
    known: Mask
    redelivered: Mask
    competing: Mask
    wanted: Mask
    payloads: Hashed
    broken: pa.Table | None = None
    files: list[DataFile] = field(default_factory=list)
    error_files: list[DataFile] = field(default_factory=list)
    superseded: pa.Table | None = None

    @classmethod
    def of(cls, spark: SparkSession, catalog: Catalog, batch: OpenBatch, driver_rows: int) -> Messages:
        few = batch.rows <= driver_rows and batch.bytes <= DRIVER_BYTES
        tables, run = BatchTables(catalog, batch), Here() if few else OnExecutors(spark)
        arrivals = Arrivals.of(tables, tables.in_range(), run)
        errors = tables.errors(tables.parse_errors, arrivals.rows)
        (messages, old), size = numbered(arrivals.rows, together(tables.before(arrivals.rows), errors))
        known = marked(old, size)[messages]
        competing = known | (np.bincount(messages, minlength=size)[messages] > 1)
        ordered = arrivals.ordered(competing & ~known, messages)
        redelivered = known | marked(ordered.rows[~ordered.is_first], len(messages))
        nothing = np.zeros(len(messages), dtype=np.uint64)
        return cls(tables, run, arrivals, messages, known, redelivered, competing, ~redelivered, nothing)

    def learn(self, shape: TableShape) -> Discovered:
        """What a few of the messages hold."""
        some = self.arrivals.some(self.wanted)[:1]
        return summarize(payload_tasks.learn(self.arrivals.source, shape, part) for part in some)

    def take_apart(self, shape: TableShape) -> Discovered:
        """Rows and broken messages are in files then, which nobody sees yet; wanted is who was set aside."""
        done = self._taken(shape, list(self.arrivals.parts(self.wanted, self.competing)))
        self.payloads[self.competing] = np.concatenate([_NONE, *(each.digests for each in done)])
        self.broken = together(*(each.broken for each in done))
        self.error_files = [file for each in done for file in each.error_files]
        starts = self.arrivals.bounds[:-1]
        places = [each.set_aside + start for each, start in zip(done, starts, strict=True)]
        self.wanted = marked(np.concatenate([_NOWHERE, *places]), len(self.messages))
        codes = (code for each in done for code in each.codes)
        return summarize((each.findings for each in done), codes)

    def take_rest(self, shape: TableShape) -> None:
        """Those that were set aside, now that the table has their columns."""
        done = self._taken(replace(shape, room=0), self.arrivals.some(self.wanted))
        if any(len(each.set_aside) for each in done):
            raise LeanOpsError("the table has no _overflow column, and the payloads need one")

    def _taken(self, shape: TableShape, parts: Sequence[Part]) -> list[Taken]:
        of = self.tables
        targets = Targets(TableFiles.of(of.target), TableFiles.of(of.parse_errors), of.batch.plan)
        work = partial(payload_tasks.take_apart, self.arrivals.source, targets, shape)
        done = self.run(work, parts)
        self.files += [file for each in done for file in each.files]
        return done

    def conflicting(self) -> int:
        """How many redeliveries say something else than the first arrival of their message."""
        again, first = self.messages[self.redelivered], self.competing & ~self.redelivered
        said_first = np.zeros(len(self.messages), dtype=np.uint64)
        said_first[self.messages[first]] = self.payloads[first]
        if self.known.any() or self.superseded is not None:
            again, said_first = self._first_ever()
        return int((said_first[again] != self.payloads[self.redelivered]).sum())

    def _first_ever(self) -> tuple[Numbers, Hashed]:
        """The messages of the redeliveries, and what each said first: perhaps to an earlier batch."""
        ever = Arrivals.of(self.tables, self.tables.ever(), self.run)
        (again, all_), size = numbered(self.arrivals.rows.filter(pa.array(self.redelivered)), ever.rows)
        ordered = ever.ordered(marked(again, size)[all_], all_)
        first = marked(ordered.rows[ordered.is_first], len(all_))
        said_first = np.zeros(size, dtype=np.uint64)
        said_first[all_[first]] = ever.digests(first)
        return again, said_first

    def write_faults(self) -> None:
        """Append the broken messages to parse_errors, unless one of them is there already."""
        parse_errors.append(
            self.tables.catalog,
            self.error_files,
            self.tables.batch.plan,
            is_there=lambda table: len(self.tables.errors(table, self.broken)) > 0,
        )

    def find_superseded(self, shape: TableShape) -> None:
        """Leave out those that are not the greatest version of their key among the fresh ones."""
        work = partial(payload_tasks.versions, self.arrivals.source, shape, versions.COLUMNS)
        done = self.run(work, list(self.arrivals.parts(self.wanted)))
        self.superseded = versions.superseded(pa.concat_tables(done))
        (messages, old), size = numbered(self.arrivals.rows, self.superseded)
        self.wanted &= ~marked(old, size)[messages]

    def write_rows(self) -> None:
        """Append the rows to the branch of the batch, in one commit that carries its token."""
        self.tables.batch.append(self.tables.target, self.files)

    def audit(self, snapshot: int) -> Audit:
        """Everything is read anew: what was kept from before could repeat a mistake instead of finding it."""
        tables = self.tables
        arrivals = Arrivals.of(tables, tables.in_range(), self.run)
        source = arrivals.rows
        errors = tables.errors(tables.parse_errors, source)
        own = pc.equal(errors["batch_id"], tables.batch.plan.batch_id)
        sides = {
            "source": source,
            "added": tables.added(snapshot),
            "before": together(tables.before(source), errors.filter(pc.invert(own))),
            "errors": errors.filter(own),
        }
        ledger = Ledger(sides, arrivals.hashes())
        books = ledger.books()
        if self.superseded is not None:
            confirmed = versions.confirmed(self.superseded, tables.added(snapshot, versions.COLUMNS))
            books = replace(
                books,
                superseded_messages=len(confirmed),
                superseded_fingerprint=total(hashes(confirmed)),
            )
        return Audit(books, ledger.offenders)
