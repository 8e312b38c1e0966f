"""What a task does with files of Standardized and of Curated: validate records, and write rows of Curated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask

from lean_ops.aws.table_files import TableFiles
from lean_ops.contracts.spec import ContractSpec
from lean_ops.payload.columns import ENVELOPE
from lean_ops.tables import KEY_HASH
from spark_jobs.identities import Hashed, Mask, Numbers, hashes
from spark_jobs.key_search import KEY, key_hashes
from spark_jobs.pieces import Piece
from spark_jobs.source import Source
from spark_jobs.transforms.casting import INSTANT, TEXT
from spark_jobs.transforms.identity import IDENTITY
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
    key: bytes | None = field(repr=False)
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
    """A piece, which of its rows are records, and which of these can be written as soon as they are valid."""

    piece: Piece
    own: Mask
    plain: Mask


class Taken(NamedTuple):
    """What became of a part: rows in files, and which of its records are valid."""

    files: list[DataFile]
    valid: Mask
    cde_violations: int


def take(source: Source, rules: Rules, part: Part) -> Taken:
    """Validate the records of a part, and write the plain ones."""
    checked = _checked(source, rules, part.piece, part.own)
    plain = part.plain & ~checked.wrong
    files = _write(rules.target, rules.rows(checked, plain)) if plain.any() else []
    return Taken(files, ~checked.wrong, checked.cde_violations)


@dataclass(frozen=True)
class Some:
    """Some rows of a piece, and what they are told of the first versions of their keys."""

    piece: Piece
    rows: Mask
    firsts: pa.Table | None = None


def tell(source: Source, rules: Rules, some: Some) -> pa.Table:
    """Invalid records, as the error log takes them."""
    return _checked(source, rules, some.piece, some.rows).invalid().cast(NO_INVALID.schema)


def write_winners(source: Source, rules: Rules, some: Some) -> list[DataFile]:
    """Write some records as rows: they are valid, that is known."""
    checked = _checked(source, rules, some.piece, some.rows)
    return _write(rules.target, rules.rows(checked, ~checked.wrong, some.firsts))


def identity_hashes(source: Source, part: tuple[Piece, Mask]) -> Hashed:
    """Of each record of a piece the hash that fingerprints sum."""
    piece, own = part
    return hashes(source.read(piece.files, IDENTITY).filter(pa.array(own)))


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
