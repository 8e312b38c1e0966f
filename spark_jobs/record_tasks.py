"""What a task does with files of Standardized and of Curated: validate records, and write rows of Curated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from lean_ops.aws.table_files import TableFiles
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload.columns import ENVELOPE
from lean_ops.tables import KEY_HASH
from spark_jobs.identities import Mask, Numbers
from spark_jobs.key_search import KEY, key_hashes
from spark_jobs.pieces import Piece
from spark_jobs.source import Source
from spark_jobs.transforms.casting import INSTANT, TEXT
from spark_jobs.transforms.validation import Checked, Places, validated

# What a row keeps of the least version of its key, and where a version has it.
FIRST = {
    "first_message_id": "message_id",
    "first_period_reference": "period_reference",
    "first_seen_ts": "publish_time",
}
# By this column rows are sorted inside files, so that days can be skipped.
SORT = "publish_time"
NO_INVALID = pa.schema(
    [
        ("message_id", TEXT),
        ("publish_time", INSTANT),
        *((name, TEXT) for name in ("period_reference", "error_code", "column_name", "rule", "violations")),
    ]
).empty_table()


@dataclass(frozen=True)
class Rules:
    """What makes a row of Curated out of a record. The PII key is part of it: no frame or plan shows it."""

    contract: ContractSpec
    places: Places
    key: bytes | None
    target: TableFiles

    @property
    def columns(self) -> list[str]:
        return [*ENVELOPE, *self.places.needed(self.contract)]

    def check(self, rows: pa.Table) -> Checked:
        return validated(rows, self.contract, self.places, self.key)

    def rows(self, checked: Checked, chosen: Mask, firsts: pa.Table | None = None) -> pa.Table:
        """The chosen records as rows; each is its key's first version, unless it is told another one."""
        keep = pa.array(chosen)
        own = checked.rows.filter(keep)
        made: dict[str, pa.Array | pa.ChunkedArray] = {name: own[name] for name in ENVELOPE}
        made |= {name: values.filter(keep) for name, values in checked.values.items()}
        made |= {name: own[mine] if firsts is None else firsts[name] for name, mine in FIRST.items()}
        made[KEY_HASH] = pa.array(key_hashes(own[KEY]))
        made["last_updated_ts"] = own["publish_time"]
        made["contract_version"] = pa.repeat(self.contract.version, len(own))
        schema = self.target.metadata.schema().as_arrow()
        # A column that the contract lacks is an older contract's: NULL in what is written under this one.
        columns = [
            made[field.name].cast(field.type) if field.name in made else pa.nulls(len(own), field.type)
            for field in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Part:
    """A piece with the rows of it that are the batch's, and those that can be written as soon as they are valid."""

    piece: Piece
    own: Mask
    plain: Mask


class Taken(NamedTuple):
    """What became of a part: rows in files, which of its rows are valid, and the invalid ones."""

    files: list[DataFile]
    valid: Mask
    invalid: pa.Table
    cde_violations: int


def take(source: Source, rules: Rules, part: Part) -> Taken:
    """Validate the records of a part, and write the plain ones."""
    valid = np.zeros(len(part.own), np.bool_)
    if not part.own.any():
        return Taken([], valid, NO_INVALID, 0)
    checked = _checked(source, rules, part.piece, part.own)
    valid[part.own] = ~checked.wrong
    plain = part.plain[part.own] & ~checked.wrong
    files = _write(rules.target, rules.rows(checked, plain)) if plain.any() else []
    return Taken(files, valid, checked.invalid().cast(NO_INVALID.schema), checked.cde_violations)


@dataclass(frozen=True)
class Winners:
    """Rows of a piece that become rows of Curated, with the first version of each one's key."""

    piece: Piece
    rows: Mask
    firsts: pa.Table


def write_winners(source: Source, rules: Rules, part: Winners) -> list[DataFile]:
    """Write some records as rows: they are valid, that is known."""
    checked = _checked(source, rules, part.piece, part.rows)
    return _write(rules.target, rules.rows(checked, ~checked.wrong, part.firsts))


def _checked(source: Source, rules: Rules, piece: Piece, rows: Mask) -> Checked:
    """The marked rows of a piece, checked."""
    found = source.read(piece.files, rules.columns)
    return rules.check(found if rows.all() else found.filter(pa.array(rows)))


def _write(target: TableFiles, rows: pa.Table) -> list[DataFile]:
    return target.write(rows.sort_by(SORT))


@dataclass(frozen=True)
class Kept:
    """Per file of Curated the rows whose payload stays, and the first versions that their keys have now."""

    files: tuple[tuple[FileScanTask, Numbers, pa.Table], ...]


def rewrite_firsts(target: TableFiles, part: Kept) -> list[DataFile]:
    """Write rows again with other first versions."""
    schema = target.metadata.schema().as_arrow()
    written = [schema.empty_table()]
    for task, places, firsts in part.files:
        rows = target.read([FileScanTask(task.file)], schema.names).take(pa.array(places)).cast(schema)
        for name in FIRST:
            index = schema.get_field_index(name)
            rows = rows.set_column(index, schema.field(index), firsts[name].cast(schema.field(index).type))
        written.append(rows)
    return _write(target, pa.concat_tables(written))
