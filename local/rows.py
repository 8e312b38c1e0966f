"""JSON records into Arrow columns, as strictly as Firehose takes them for an Iceberg table.

Names and types must match exactly and every column must be there (null is a value); a field that the table
does not have is dropped silently. A timestamp is an integer of microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
_MICROSECONDS = Annotated[int, msgspec.Meta(ge=_YEAR_1, lt=_YEAR_10000)]
_TYPES: dict[type[IcebergType], Any] = {
    BooleanType: bool,
    DoubleType: float,
    IntegerType: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)],
    LongType: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    StringType: str,
    TimestampType: _MICROSECONDS,
    TimestamptzType: _MICROSECONDS,
}


@dataclass(frozen=True)
class Refusal:
    """Why a record does not fit, and which one of the sequence it is."""

    index: int
    code: str
    message: str


class Columns:
    """Decodes the records of one table; made from its schema."""

    def __init__(self, schema: Schema) -> None:
        fields = []
        for field in schema.fields:
            kind = _TYPES[type(field.field_type)]
            fields.append((field.name, kind if field.required else kind | None))
        self._names = [field.name for field in schema.fields]
        self._arrow = schema.as_arrow()
        self._decoder = msgspec.json.Decoder(msgspec.defstruct("Row", fields))

    def decode(self, records: Sequence[bytes]) -> tuple[pa.Table, list[Refusal]]:
        """The records that fit, as a table, and the refusals of those that do not."""
        rows: list[Any] = []
        refusals: list[Refusal] = []
        for index, record in enumerate(records):
            try:
                rows.append(self._decoder.decode(record))
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                refusals.append(Refusal(index, _code(error), str(error)))
        arrays = [
            pa.array([getattr(row, name) for row in rows], type=self._arrow.field(name).type)
            for name in self._names
        ]
        return pa.Table.from_arrays(arrays, schema=self._arrow), refusals


def _code(error: Exception) -> str:
    if not isinstance(error, msgspec.ValidationError):
        return "Iceberg.InvalidJson"
    if "missing required field" in str(error):
        return "Iceberg.MissingColumnWithinRecord"
    return "Iceberg.TypeMismatch"
