"""A contract: what a topic's payload must hold to become rows of the Curated table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from lean_ops.config.findings import UnfitError
from lean_ops.config.specs import Spec
from lean_ops.config.topics import PayloadPath, TopicName
from lean_ops.contracts import column_types
from lean_ops.contracts.column_types import ColumnType, TimestampFormat
from lean_ops.naming import is_identifier, snake_case

MAX_COLUMNS = 1000

EnvelopeColumn = Literal[
    "idempotency_key", "message_id", "publish_time", "period_reference", "ingestion_ts", "topic_name"
]
ENVELOPE: tuple[EnvelopeColumn, ...] = get_args(EnvelopeColumn)
REQUIRED_ENVELOPE = ENVELOPE[:4]
RESERVED_NAMES = frozenset(
    (
        *ENVELOPE,
        "first_message_id",
        "first_period_reference",
        "first_seen_ts",
        "last_updated_ts",
        "contract_version",
        "json_payload",
    )
)


@dataclass(frozen=True)
class WrittenNumber:
    """A JSON number in the digits it was written with; as a float, 0.10 would lose one."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _column_name(name: str) -> str:
    if not is_identifier(name) or name.startswith("_"):
        expected = "1 to 255 lower-case letters, digits and underscores, a letter first"
        raise UnfitError(expected, snake_case(name, 255))
    if name in RESERVED_NAMES:
        raise ValueError("a name that lean-ops does not use itself")
    return name


def _column_type(text: str) -> str:
    return str(column_types.parse(text))


def _default_text(value: Any) -> Any:
    # A default is the text that would have stood in the payload, so that it passes the very same checks.
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, WrittenNumber) else value


def _version(text: str) -> str:
    if not re.fullmatch(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", text):
        raise ValueError("major.minor, such as '1.0'")
    return text


class ColumnSpec(Spec):
    """One column of the Curated table and the payload path it comes from."""

    name: Annotated[
        str,
        AfterValidator(_column_name),
        WithJsonSchema({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,254}$"}),
    ]
    path: PayloadPath | None = None
    type: Annotated[
        str, AfterValidator(_column_type), WithJsonSchema({"type": "string", "pattern": column_types.PATTERN})
    ]
    cde: Annotated[bool, Field(description="Critical data element: a record without it is an error.")] = False
    nullable: bool | None = None
    default: Annotated[
        str | None,
        BeforeValidator(_default_text),
        WithJsonSchema({"type": ["string", "number", "boolean", "null"], "default": None}),
    ] = None
    pii: Annotated[bool, Field(description="Stored as a keyed hash, never in clear.")] = False
    description: Annotated[str, Field(max_length=2000)] = ""
    format: TimestampFormat | None = None

    @property
    def payload_path(self) -> str:
        return self.path if self.path is not None else self.name

    @property
    def required(self) -> bool:
        """Whether a row may never hold NULL here."""
        return self.cde or self.nullable is False

    @property
    def column_type(self) -> ColumnType:
        return column_types.parse(self.type)

    @property
    def timestamp_format(self) -> TimestampFormat:
        return self.format or "iso8601"


class ContractSpec(Spec):
    """A whole contract file."""

    editor_schema: Annotated[str | None, Field(alias="$schema", description="For editors only.")] = None
    table_name: TopicName
    version: Annotated[
        str, AfterValidator(_version), WithJsonSchema({"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"})
    ]
    description: Annotated[str, Field(max_length=2000)] = ""
    # Not strict, because JSON has lists and no tuples.
    envelope_columns: Annotated[tuple[EnvelopeColumn, ...], Field(strict=False)]
    payload_columns: Annotated[tuple[ColumnSpec, ...], Field(strict=False)]

    @property
    def version_numbers(self) -> tuple[int, int]:
        major, minor = self.version.split(".")
        return int(major), int(minor)

    def column(self, name: str) -> ColumnSpec | None:
        return next((column for column in self.payload_columns if column.name == name), None)
