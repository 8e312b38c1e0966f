"""A contract: what a topic's payload must hold to become rows of the Curated table."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from lean_ops import column_types
from lean_ops.column_types import ColumnType, TimestampFormat
from lean_ops.naming import is_identifier
from lean_ops.specs import Spec
from lean_ops.topics import PayloadPath, TopicName

MAX_COLUMNS = 1000

REQUIRED_ENVELOPE = ("idempotency_key", "message_id", "publish_time", "period_reference")
OPTIONAL_ENVELOPE = ("ingestion_ts", "topic_name")
RESERVED_NAMES = frozenset(
    (
        *REQUIRED_ENVELOPE,
        *OPTIONAL_ENVELOPE,
        "first_message_id",
        "first_period_reference",
        "first_seen_ts",
        "last_updated_ts",
        "contract_version",
        "json_payload",
    )
)


def _column_name(name: str) -> str:
    if not is_identifier(name) or name.startswith("_"):
        raise ValueError("1 to 255 lower-case letters, digits and underscores, a letter first")
    if name in RESERVED_NAMES:
        raise ValueError("a name that lean-ops does not use itself")
    return name


def _column_type(text: str) -> str:
    return str(column_types.parse(text))


def _default_text(value: Any) -> Any:
    # A default is the text that would have stood in the payload, so that it passes the very same checks.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


def _version(text: str) -> str:
    if not re.fullmatch(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", text):
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
        str, AfterValidator(_version), WithJsonSchema({"type": "string", "pattern": r"^\d+\.\d+$"})
    ]
    description: Annotated[str, Field(max_length=2000)] = ""
    envelope_columns: tuple[str, ...]
    payload_columns: tuple[ColumnSpec, ...]

    @property
    def version_numbers(self) -> tuple[int, int]:
        major, minor = self.version.split(".")
        return int(major), int(minor)

    def column(self, name: str) -> ColumnSpec | None:
        return next((column for column in self.payload_columns if column.name == name), None)
