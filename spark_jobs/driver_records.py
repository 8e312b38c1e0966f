"""Few records: validated by the same expressions, then sorted out here; Spark looks keys up and writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lean_ops import fingerprints
from lean_ops.aws import lake
from lean_ops.batch.curated_books import CuratedBooks
from lean_ops.batch.thresholds import Verdict
from lean_ops.identity import to_micros
from lean_ops.payload.columns import ENVELOPE
from spark_jobs.records import CuratedAudit, Curation, Moves, Source
from spark_jobs.transforms import curated, pii, validation
from spark_jobs.transforms.curated import EARLIER, FIRST, KEY, NEWER
from spark_jobs.transforms.identity import IDENTITY
from spark_jobs.transforms.validation import CDE_VIOLATED, VIOLATIONS

Version = tuple[Any, str]
_OWN = ("publish_time", "message_id", "period_reference")


@dataclass
class DriverRecords:
    """The records as one Arrow table; `best` and `least` are the rows of each key's greatest and least version."""

    curation: Curation
    source: Source
    checked: pa.Table
    verdict: Verdict
    best: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, curation: Curation, source: Source) -> DriverRecords:
        contract, places = curation.contract, curation.places
        frame = curation.spark.createDataFrame(source.table([*ENVELOPE, *places.needed(contract)]))
        rows = validation.validated(frame, contract, places)
        checked = curated.keyed(rows).toArrow()
        if curation.key is not None:
            checked = pii.hashed_table(checked, curation.personal, curation.key)
        invalid = len(checked) - checked[VIOLATIONS].null_count
        verdict = Verdict(len(checked), invalid, pc.sum(checked[CDE_VIOLATED]).as_py() or 0)
        return cls(curation, source, checked, verdict)

    def invalid(self) -> pa.Table:
        return validation.invalid_table(self.checked)

    def look_up(self) -> Moves:
        for row in self._valid_rows():
            key = self._keys[row]
            if self.best.setdefault(key, row) != row and self._versions[row] > self._versions[self.best[key]]:
                self.best[key] = row
            if (
                self.least.setdefault(key, row) != row
                and self._versions[row] < self._versions[self.least[key]]
            ):
                self.least[key] = row
        columns = (*KEY, *IDENTITY, "period_reference", *FIRST)
        for found in self._rows_of_keys(self.curation.batch.head, self.best, columns):
            self.known[found["idempotency_key"]] = found | self._moved(found)
        moved = self._moving()
        return Moves(
            curated.cases(
                self.curation.curated_names,
                newer=any(each[NEWER] for each in moved),
                older=any(not each[NEWER] for each in moved),
            ),
            sorted({each["period_reference"] for each in moved}),
        )

    def updates(self) -> DataFrame:
        moved = self._moving()
        keys = [each["idempotency_key"] for each in moved]
        rows = self._complete(keys)
        for name in FIRST:
            own = rows[name].to_pylist()
            kept = [mine if each[EARLIER] else each[name] for mine, each in zip(own, moved, strict=True)]
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(kept, rows[name].type))
        for case in (NEWER, EARLIER):
            rows = rows.append_column(case, pa.array([each[case] for each in moved], pa.bool_()))
        return self._frame(rows)

    def new(self) -> DataFrame:
        return self._frame(self._complete([key for key in self.best if key not in self.known]))

    def audit(self, snapshots: Sequence[int]) -> CuratedAudit:
        """Everything is read anew: what was kept from before could repeat a mistake instead of finding it."""
        records = self.source.table([*IDENTITY, "idempotency_key"]).to_pylist()
        keys = {row["idempotency_key"]: None for row in records if row["idempotency_key"] is not None}
        rows: dict[str, list[Version]] = {}
        for row in self._rows_of_keys(snapshots[-1], keys, (*KEY, *IDENTITY)):
            rows.setdefault(row["idempotency_key"], []).append(_version(row))
        left_open = self.curation.errors.left_open().to_pylist()
        errors = {_version(row) for row in left_open}
        outcomes = {_version(row): _outcomes(row, rows, errors) for row in records}
        counted, prints = Counter[str](), Counter[str]()
        for (moment, message_id), names in outcomes.items():
            for name in names:
                counted[name] += 1
                prints[name] += fingerprints.of_message(message_id, to_micros(moment))
        sides = {f"{name}_messages": counted[name] for name in ("current", "superseded", "error")}
        books = CuratedBooks(
            source_rows=len(records),
            source_fingerprint=prints["source"],
            **sides,
            current_fingerprint=prints["current"],
            superseded_fingerprint=prints["superseded"],
            error_fingerprint=prints["error"],
            missing=counted["missing"],
            doubled=counted["doubled"] + len(records) - len(outcomes),
            valid_keys=len(self.best),
            known_keys=len(self.known),
            moved_keys=len(self._moving()),
            **lake.written(self.curation.curated, snapshots),
        )
        return CuratedAudit(books, partial(_offenders, outcomes))

    def release(self) -> None:
        """Nothing is held outside this object."""

    def __post_init__(self) -> None:
        self._keys: list[str] = self.checked["idempotency_key"].to_pylist()
        self._versions: list[Version] = list(
            zip(self.checked["publish_time"].to_pylist(), self.checked["message_id"].to_pylist(), strict=True)
        )

    def _valid_rows(self) -> list[int]:
        return [row for row, text in enumerate(self.checked[VIOLATIONS].to_pylist()) if text is None]

    def _moved(self, found: Mapping[str, Any]) -> dict[str, bool]:
        """Whether the batch has a greater version than the row of a key, and whether an earlier first one."""
        key = found["idempotency_key"]
        first = found["first_seen_ts"], found["first_message_id"]
        return {
            NEWER: self._versions[self.best[key]] > _version(found),
            EARLIER: self._versions[self.least[key]] < first,
        }

    def _moving(self) -> list[dict[str, Any]]:
        return [each for each in self.known.values() if each[NEWER] or each[EARLIER]]

    def _rows_of_keys(
        self, snapshot: int, keys: Mapping[str, Any], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Rows of Curated at a snapshot, found by the hash of their key and confirmed by the key itself."""
        if not keys or lake.live_rows(self.curation.curated, snapshot) == 0:
            return []
        names = pa.table({"idempotency_key": pa.array(keys, pa.large_string())})
        wanted = curated.keyed(self.curation.spark.createDataFrame(names))
        rows = self.curation.batch.target.at(snapshot).select(*columns)
        return rows.join(F.broadcast(wanted), on=KEY, how="left_semi").toArrow().to_pylist()

    def _complete(self, keys: Sequence[str]) -> pa.Table:
        """The final rows of these keys, in the columns of Curated."""
        rows = self.checked.take(pa.array([self.best[key] for key in keys], pa.int64()))
        firsts = self.checked.take(pa.array([self.least[key] for key in keys], pa.int64()))
        rows = rows.append_column("last_updated_ts", rows["publish_time"])
        for name, own in zip(FIRST, _OWN, strict=True):
            rows = rows.append_column(name, firsts[own])
        version = self.curation.batch.plan.contract_version
        rows = rows.append_column("contract_version", pa.array([version] * len(rows), pa.large_string()))
        return rows.select([name for name in self.curation.curated_names if name in rows.column_names])

    def _frame(self, rows: pa.Table) -> DataFrame:
        frame = self.curation.spark.createDataFrame(rows).coalesce(1)
        absent = {name: F.lit(None) for name in self.curation.curated_names if name not in rows.column_names}
        return frame.withColumns(absent)


def _version(row: Mapping[str, Any]) -> Version:
    return row["publish_time"], row["message_id"]


def _outcomes(
    record: Mapping[str, Any], rows: Mapping[str, list[Version]], errors: set[Version]
) -> tuple[str, ...]:
    own, found = _version(record), rows.get(record["idempotency_key"], [])
    row = max(found, default=None)
    twice = ("doubled",) if len(found) > 1 or (own in errors and row == own) else ()
    if own in errors:
        return ("source", "error", *twice)
    if row is None or row < own:
        return ("source", "missing", *twice)
    return ("source", "current" if row == own else "superseded", *twice)


def _offenders(outcomes: Mapping[Version, tuple[str, ...]], limit: int = 10) -> list[str]:
    wrong = [
        message_id
        for (_, message_id), names in sorted(outcomes.items())
        if "missing" in names or "doubled" in names
    ]
    return wrong[:limit]
