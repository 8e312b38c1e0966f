"""The records of a batch on their way into Curated.

Tasks get whole files of Standardized, validate the records and write rows of Curated: a record whose key nobody
else has in the same pass, the others as soon as it is known who wins. A row that changes leaves by a position
delete, and comes back with the rows that are new. A small batch does the same in this process, in two passes, so
that its rows share their files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from lean_ops.aws import lake, position_deletes
from lean_ops.aws.position_deletes import Doomed
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from spark_jobs import record_tasks
from spark_jobs.curated_ledger import CuratedLedger
from spark_jobs.curation import Curation
from spark_jobs.identities import Hashed, Mask, Numbers, alike, marked
from spark_jobs.key_search import FILE, KEY, PLACE, Found, rows_of_keys
from spark_jobs.merge import RECORD, ROW, Merge, merge
from spark_jobs.pieces import Here, OnExecutors, Piece, Run, cut
from spark_jobs.record_tasks import Kept, Part, Rules
from spark_jobs.source import Source

_NOBODY: Mask = np.empty(0, np.bool_)


@dataclass(frozen=True)
class Gathered:
    """What has to be known of the records of a batch; `own` says which rows of a piece they are."""

    pieces: tuple[Piece, ...]
    own: tuple[Mask, ...]
    rows: pa.Table

    @classmethod
    def of(cls, curation: Curation, source: Source, run: Run) -> Gathered:
        standardized = curation.standardized
        pieces = cut(curation.origin.files(standardized), run.at_once)
        rows, own = [source.read((), RECORD)], []
        for piece in pieces:
            found = source.read(piece.files, RECORD)
            own.append(curation.origin.own(found))
            rows.append(found.filter(pa.array(own[-1])))
        return cls(pieces, tuple(own), pa.concat_tables(rows))

    def parts(self) -> Iterator[tuple[Piece, Mask, slice]]:
        """Every piece with records, and which of all records they are."""
        bounds = np.cumsum([0, *(mask.sum() for mask in self.own)]).tolist()
        for piece, own, (start, stop) in zip(self.pieces, self.own, pairwise(bounds), strict=True):
            if stop > start:
                yield piece, own, slice(start, stop)

    def hashes(self, source: Source, run: Run) -> Hashed:
        """Of each record the hash that fingerprints sum."""
        parts = [(piece, own) for piece, own, _ in self.parts()]
        done = run(partial(record_tasks.identity_hashes, source), parts)
        return np.concatenate([np.empty(0, np.uint64), *done])


@dataclass
class Records:
    """All masks and numbers are those of the records, in the order of the pieces."""

    curation: Curation
    run: Run
    source: Source
    gathered: Gathered
    known: Found
    plain: Mask
    rules: Rules
    valid: Mask = field(default_factory=_NOBODY.copy)
    files: list[DataFile] = field(default_factory=list)

    @classmethod
    def of(cls, curation: Curation, *, few: bool) -> Records:
        """The records, the rows that their keys have already, and which keys nobody else has."""
        run = Here() if few else OnExecutors(curation.spark)
        source = Source.of(curation.standardized, curation.origin.where)
        gathered = Gathered.of(curation, source, run)
        keys, head = _keys(gathered.rows), curation.batch.head
        known = rows_of_keys(curation.curated, head, keys, ROW, OnExecutors(curation.spark))
        (own, theirs), size = alike(keys, known.rows[KEY])
        lonely = (np.bincount(own, minlength=size) == 1) & ~marked(theirs, size)
        plain = np.zeros(len(own), np.bool_) if few else lonely[own]
        return cls(curation, run, source, gathered, known, plain, curation.rules)

    def take(self) -> Verdict:
        """Validate all records, and write those whose key nobody else has."""
        parts = [Part(piece, own, self.plain[here]) for piece, own, here in self.gathered.parts()]
        done = self.run(partial(record_tasks.take, self.source, self.rules), parts)
        self.files += [file for each in done for file in each.files]
        self.valid = np.concatenate([_NOBODY, *(each.valid for each in done)])
        lacking = sum(each.cde_violations for each in done)
        return Verdict(len(self.valid), len(self.valid) - int(self.valid.sum()), lacking)

    def invalid(self) -> pa.Table:
        """The invalid ones with all that is wrong with them."""
        done = self.run(partial(record_tasks.tell, self.source, self.rules), list(self._some(~self.valid)))
        return pa.concat_tables([record_tasks.NO_INVALID, *done])

    def merge(self) -> list[DataFile]:
        """Write those whose key others have too, if they win; returns the files that delete what they replace."""
        self.merged = merge(self.gathered.rows, np.flatnonzero(self.valid & ~self.plain), self.known.rows)
        winners = list(self._some(marked(self.merged.winners, len(self.valid)), self.merged.winners_firsts))
        for files in self.run(partial(record_tasks.write_winners, self.source, self.rules), winners):
            self.files += files
        for files in self.run(
            partial(record_tasks.rewrite_firsts, self.rules.target), self._kept(self.merged)
        ):
            self.files += files
        gone = self._by_file(self.merged.gone)
        doomed = (Doomed(task.file, self._places[these]) for task, these, _ in gone)
        return position_deletes.write(self.rules.target, doomed)

    def audit(self, snapshot: int) -> tuple[CuratedBooks, CuratedLedger]:
        """Records, rows and errors are read anew: what was kept could repeat a mistake instead of finding it."""
        curation = self.curation
        again = Gathered.of(curation, self.source, self.run)
        keys, executors = _keys(again.rows), OnExecutors(curation.spark)
        ledger = CuratedLedger(
            records=again.rows,
            rows=rows_of_keys(curation.curated, snapshot, keys, ROW, executors).rows,
            errors=curation.errors.left_open(),
            before=self.known.rows,
            hashed=again.hashes(self.source, self.run),
        )
        books = CuratedBooks(
            **ledger.books(),
            valid_keys=self.merged.keys + int((self.plain & self.valid).sum()),
            known_keys=self.merged.known_keys,
            moved_keys=len(self.merged.gone),
            **lake.written(curation.curated, snapshot),
        )
        return books, ledger

    def _some(self, chosen: Mask, told: pa.Table | None = None) -> Iterator[record_tasks.Some]:
        """The pieces with chosen records, and what each of these is told."""
        done = 0
        for piece, own, here in self.gathered.parts():
            rows = own.copy()
            rows[own] = chosen[here]
            count = int(rows.sum())
            # Taken, not sliced: a slice that is sent to a task brings the whole table along.
            firsts = told.take(pa.array(np.arange(done, done + count))) if told is not None else None
            done += count
            if count:
                yield record_tasks.Some(piece, rows, firsts)

    def _kept(self, merged: Merge) -> list[Kept]:
        """The files of Curated with rows of which only the first version changes."""
        by_path = {task.file.file_path: (task, *rest) for task, *rest in self._by_file(merged.kept)}
        found = []
        for piece in cut((task for task, *_ in by_path.values()), self.run.at_once):
            own = (by_path[task.file.file_path] for task in piece.files)
            found.append(
                Kept(
                    tuple(
                        (task, self._places[these], merged.kept_firsts.take(pa.array(order)))
                        for task, these, order in own
                    )
                )
            )
        return found

    def _by_file(self, these: Numbers) -> list[tuple[FileScanTask, Numbers, Numbers]]:
        """Some of the known rows by the file they stand in, and where in `these` they are."""
        numbers = self.known.rows[FILE].to_numpy()[these]
        order = np.argsort(numbers, kind="stable")
        files, begins = np.unique(numbers[order], return_index=True)
        groups = np.split(order, begins[1:])
        return [
            (self.known.files[number], these[group], group)
            for number, group in zip(files.tolist(), groups, strict=False)
        ]

    @property
    def _places(self) -> Numbers:
        places: Numbers = self.known.rows[PLACE].to_numpy()
        return places


def _keys(records: pa.Table) -> pa.ChunkedArray:
    """The keys; no key is an empty one, which nobody has either: both are invalid."""
    return pc.fill_null(records[KEY].cast(pa.large_string()), "")
