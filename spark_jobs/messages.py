"""The messages of a batch on their way into Standardized.

Who is new, who is known and who comes twice is decided here, on identities alone; payloads are read, taken apart
and written by tasks that get whole files of RAW. A small batch does the same in this process: starting tasks costs
more than a few thousand messages do. Which way is taken changes nothing but the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyspark.sql import SparkSession

from lean_ops.aws import table_files
from lean_ops.aws.table_files import TableFiles
from lean_ops.batch.accounting import Audit
from lean_ops.payload.survey import KnownShape
from spark_jobs import parse_errors, payload_tasks, versions
from spark_jobs.arrivals import Arrivals
from spark_jobs.batch_tables import BatchTables
from spark_jobs.identities import Hashed, Ledger, Mask, Numbers, hashes, marked, numbered, together, total
from spark_jobs.pieces import Here, OnExecutors, Run
from spark_jobs.transforms.discovery import Discovered, summarize
from spark_jobs.transforms.payloads import TableShape
from spark_jobs.work import OpenBatch

DRIVER_ROWS = 20_000
DRIVER_BYTES = 32 * 1024 * 1024

_NONE: Hashed = np.empty(0, dtype=np.uint64)


@dataclass
class Messages:
    """The rows of a range: those that bring a message again, those to leave out, and the fresh ones.

    All masks are over the rows as they arrived; `messages` numbers their identities.
    """

    tables: BatchTables
    run: Run
    arrivals: Arrivals
    messages: Numbers
    known: Mask
    redelivered: Mask
    competing: Mask
    left_out: Mask
    payloads: Hashed
    broken: pa.Table | None = None
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
        return cls(
            tables, run, arrivals, messages, known, redelivered, competing, redelivered.copy(), nothing
        )

    def discover(self, known: KnownShape) -> Discovered:
        """What is new and what is broken; the broken ones are in files then, which nobody sees yet."""
        errors, plan = TableFiles.of(self.tables.parse_errors), self.tables.batch.plan
        work = partial(payload_tasks.discover, self.arrivals.source, errors, known, plan)
        done = self.run(work, list(self.arrivals.parts(self.left_out, self.competing)))
        self.payloads[self.competing] = np.concatenate([_NONE, *(piece.digests for piece in done)])
        self.broken = together(*(piece.broken for piece in done))
        self.error_files = [file for piece in done for file in piece.files]
        return summarize(row for piece in done for row in piece.summary)

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
        done = self.run(work, list(self.arrivals.parts(self.left_out)))
        self.superseded = versions.superseded(pa.concat_tables(done))
        (messages, old), size = numbered(self.arrivals.rows, self.superseded)
        self.left_out |= marked(old, size)[messages]

    def write_rows(self, shape: TableShape) -> None:
        """Append the fresh messages to the branch of the batch, in one commit that carries its token."""
        batch, target = self.tables.batch, self.tables.target
        work = partial(payload_tasks.flatten, self.arrivals.source, TableFiles.of(target), shape)
        done = self.run(work, list(self.arrivals.parts(self.left_out)))
        files = [file for written in done for file in written]
        branch = target.metadata.refs.get(batch.branch)
        if branch is None or branch.snapshot_id != batch.head:
            raise batch.target.refused()
        try:
            table_files.append(target, files, batch.plan.token.summary(), branch=batch.branch)
        except CommitFailedException as error:
            raise batch.target.refused() from error

    def audit(self, snapshot: int) -> Audit:
        """Everything is read anew: what was kept from before could repeat a mistake instead of finding it."""
        tables = self.tables
        source = Arrivals.of(tables, tables.in_range(), self.run).rows
        errors = tables.errors(tables.parse_errors, source)
        own = pc.equal(errors["batch_id"], tables.batch.plan.batch_id)
        sides = {
            "source": source,
            "added": tables.added(snapshot),
            "before": together(tables.before(source), errors.filter(pc.invert(own))),
            "errors": errors.filter(own),
        }
        ledger = Ledger(sides, self._hashes)
        books = ledger.books()
        if self.superseded is not None:
            confirmed = versions.confirmed(self.superseded, tables.added(snapshot, versions.COLUMNS))
            books = replace(
                books,
                superseded_messages=len(confirmed),
                superseded_fingerprint=total(self._hashes(confirmed)),
            )
        return Audit(books, ledger.offenders)

    def _hashes(self, identities: pa.Table) -> Hashed:
        chunks = np.array_split(np.arange(len(identities)), self.run.at_once)
        # Taken, not sliced: a slice that is sent to a task brings the whole table along.
        done = self.run(hashes, [identities.take(pa.array(chunk)) for chunk in chunks])
        return np.concatenate(done)
