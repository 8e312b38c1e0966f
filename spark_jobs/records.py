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

from lean_ops.aws import lake, position_deletes, rows
from lean_ops.aws.position_deletes import DeleteFile, Doomed
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from spark_jobs import record_tasks
from spark_jobs.curated_ledger import CuratedLedger
from spark_jobs.curation import Curation
from spark_jobs.identities import Mask, Numbers, alike, hashes_by, marked
from spark_jobs.key_search import FILE, KEY, PLACE, rows_of_keys
from spark_jobs.merge import RECORD, ROW, Merge, merge
from spark_jobs.pieces import Here, OnExecutors, Piece, Run, cut
from spark_jobs.record_tasks import Kept, Part, Rules, Winners
from spark_jobs.source import Source
from spark_jobs.transforms.identity import IDENTITY

_NOBODY: Mask = np.empty(0, np.bool_)


@dataclass
class Records:
    """All masks are over the rows of the files that the records are in, in the order of the pieces."""

    curation: Curation
    run: Run
    source: Source
    pieces: tuple[Piece, ...]
    bounds: tuple[int, ...]
    rows: pa.Table
    own: Mask
    known: pa.Table
    plain: Mask
    rules: Rules
    valid: Mask = field(default_factory=_NOBODY.copy)
    files: list[DataFile] = field(default_factory=list)

    @classmethod
    def of(cls, curation: Curation, *, few: bool) -> Records:
        """The records, the rows that their keys have already, and which keys nobody else has."""
        run = Here() if few else OnExecutors(curation.spark)
        standardized = curation.standardized
        source = Source.of(standardized, curation.origin.where)
        pieces = cut(curation.origin.files(standardized), run.at_once)
        found, bounds = source.gather(pieces, RECORD)
        own = curation.origin.own(found)
        keys = _keys(found)
        known = rows_of_keys(
            curation.curated,
            curation.batch.head,
            keys.filter(pa.array(own)),
            ROW,
            OnExecutors(curation.spark),
        )
        (mine, theirs), size = alike(keys, known[KEY])
        lonely = (np.bincount(mine[own], minlength=size) == 1) & ~marked(theirs, size)
        plain = np.zeros(len(own), np.bool_) if few else own & lonely[mine]
        return cls(curation, run, source, pieces, bounds, found, own, known, plain, curation.rules)

    def take(self) -> tuple[Verdict, pa.Table]:
        """Validate all records, and write those whose key nobody else has; returns the invalid ones too."""
        parts = [Part(piece, self.own[here], self.plain[here]) for piece, here in self._pieces()]
        done = self.run(partial(record_tasks.take, self.source, self.rules), parts)
        self.files += [file for each in done for file in each.files]
        self.valid = np.concatenate([_NOBODY, *(each.valid for each in done)])
        invalid = pa.concat_tables([record_tasks.NO_INVALID, *(each.invalid for each in done)])
        return Verdict(int(self.own.sum()), len(invalid), sum(each.cde_violations for each in done)), invalid

    def merge(self) -> list[DeleteFile]:
        """Write those whose key others have too, if they win; returns the files that delete what they replace."""
        self.merged = merge(self.rows, np.flatnonzero(self.valid & ~self.plain), self.known)
        winners = list(self._winners(self.merged))
        for files in self.run(partial(record_tasks.write_winners, self.source, self.rules), winners):
            self.files += files
        if not len(self.merged.gone):
            return []
        curation = self.curation
        tasks = rows.files(curation.curated, None, curation.batch.head)
        by_path = {task.file.file_path: task for task in tasks}
        for files in self.run(partial(record_tasks.rewrite_firsts, self.rules.target), self._kept(by_path)):
            self.files += files
        gone = self._by_file(self.merged.gone)
        doomed = (Doomed(by_path[path].file, self._places(these)) for path, these in gone.items())
        return position_deletes.write(self.rules.target, doomed)

    def audit(self, snapshots: list[int]) -> tuple[CuratedBooks, CuratedLedger]:
        """Everything is read anew: what was kept from before could repeat a mistake instead of finding it."""
        curation = self.curation
        read, _ = self.source.gather(cut(curation.origin.files(curation.standardized)), RECORD)
        records = read.filter(pa.array(curation.origin.own(read)))
        standing = rows_of_keys(
            curation.curated, snapshots[-1], _keys(records), IDENTITY, OnExecutors(curation.spark)
        )
        left_open = curation.errors.left_open()
        ledger = CuratedLedger(records, standing, left_open, self.known, hashes_by(self.run))
        books = CuratedBooks(
            **ledger.books(),
            valid_keys=self.merged.keys + int((self.plain & self.valid).sum()),
            known_keys=self.merged.known_keys,
            moved_keys=len(self.merged.gone),
            **lake.written(curation.curated, snapshots),
        )
        return books, ledger

    def _pieces(self) -> Iterator[tuple[Piece, slice]]:
        for piece, (start, stop) in zip(self.pieces, pairwise(self.bounds), strict=True):
            yield piece, slice(start, stop)

    def _winners(self, merged: Merge) -> Iterator[Winners]:
        """Every piece that has some, with what they are told of their keys' first versions."""
        wins = marked(merged.winners, len(self.rows))
        done = 0
        for piece, here in self._pieces():
            count = int(wins[here].sum())
            if count:
                # Taken, not sliced: a slice that is sent to a task brings the whole table along.
                firsts = merged.winners_firsts.take(pa.array(np.arange(done, done + count)))
                yield Winners(piece, wins[here], firsts)
            done += count

    def _kept(self, tasks: dict[str, FileScanTask]) -> list[Kept]:
        """The files of Curated with rows of which only the first version changes."""
        kept, firsts = self._by_file(self.merged.kept), self.merged.kept_firsts
        place_in_kept = {int(row): place for place, row in enumerate(self.merged.kept)}
        found = []
        for piece in cut((tasks[path] for path in kept), self.run.at_once):
            own = [(task, kept[task.file.file_path]) for task in piece.files]
            told = [firsts.take(pa.array([place_in_kept[row] for row in these.tolist()])) for _, these in own]
            found.append(
                Kept(
                    tuple(
                        (task, self._places(these), each)
                        for (task, these), each in zip(own, told, strict=True)
                    )
                )
            )
        return found

    def _by_file(self, these: Numbers) -> dict[str, Numbers]:
        """Some of the known rows by the file they stand in."""
        paths = self.known[FILE].take(pa.array(these)).combine_chunks().dictionary_encode()
        numbers = paths.indices.to_numpy()
        return {path: these[numbers == number] for number, path in enumerate(paths.dictionary.to_pylist())}

    def _places(self, these: Numbers) -> Numbers:
        places: Numbers = self.known[PLACE].to_numpy()[these]
        return places


def _keys(records: pa.Table) -> pa.ChunkedArray:
    """The keys; no key is an empty one, which nobody has either: both are invalid."""
    return pc.fill_null(records[KEY].cast(pa.large_string()), "")
