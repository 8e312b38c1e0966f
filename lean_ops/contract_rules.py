"""What a contract may not say, beyond the shape of its fields: one small rule per fault.

Rules see the columns whose fields are sound, so that one broken field never hides another fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lean_ops import column_types, payload_path
from lean_ops.contracts import OPTIONAL_ENVELOPE, REQUIRED_ENVELOPE, ColumnSpec
from lean_ops.findings import nearest, shown
from lean_ops.specs import Complaint
from lean_ops.topics import TopicSpec

Columns = Mapping[int, ColumnSpec]
_NUMERIC = ("int", "bigint", "double", "decimal")
ColumnRule = Callable[[ColumnSpec], Iterator[tuple[str, str, str]]]


def column_complaints(columns: Columns, faulty: Mapping[int, frozenset[str]]) -> Iterator[Complaint]:
    """Faults inside single columns; a rule is silent about fields that are already known to be broken."""
    for index, column in columns.items():
        for rule, fields in _COLUMN_RULES:
            if not faulty.get(index, frozenset()) & fields:
                for field, found, expected in rule(column):
                    yield Complaint(("payload_columns", index, field), found, expected)


def contract_complaints(columns: Columns) -> Iterator[Complaint]:
    """Faults between columns: names and paths that collide."""
    names: dict[str, int] = {}
    paths: dict[tuple[str, ...], int] = {}
    for index, column in columns.items():
        if column.name in names:
            where = f"/payload_columns/{names[column.name]}"
            yield Complaint(
                ("payload_columns", index, "name"), shown(column.name), f"a name not used by {where}"
            )
        names.setdefault(column.name, index)
        keys = payload_path.segments(column.payload_path)
        if keys in paths:
            expected = f"a path not used by /payload_columns/{paths[keys]}"
            yield Complaint(("payload_columns", index, "path"), shown(column.payload_path), expected)
        paths.setdefault(keys, index)
    for keys, index in paths.items():
        above = next((paths[keys[:depth]] for depth in range(1, len(keys)) if keys[:depth] in paths), None)
        if above is not None:
            found = shown(payload_path.join(keys))
            expected = f"a path that is not inside that of /payload_columns/{above}: a value has no keys"
            yield Complaint(("payload_columns", index, "path"), found, expected)


def envelope_complaints(envelope: Sequence[object]) -> Iterator[Complaint]:
    """Envelope columns are lean-ops' own: four are always there, two are a choice."""
    known = (*REQUIRED_ENVELOPE, *OPTIONAL_ENVELOPE)
    for index, name in enumerate(envelope):
        if name not in known:
            yield Complaint(("envelope_columns", index), shown(name), ", ".join(known), nearest(name, known))
        elif name in envelope[:index]:
            yield Complaint(("envelope_columns", index), f"{shown(name)} a second time", "each column once")
    missing = [name for name in REQUIRED_ENVELOPE if name not in envelope]
    if missing:
        yield Complaint(("envelope_columns",), f"no {', '.join(missing)}", ", ".join(REQUIRED_ENVELOPE))


def topic_complaints(columns: Columns, table_name: object, topic: TopicSpec) -> Iterator[Complaint]:
    """Faults between the contract and its topic."""
    if table_name != topic.topic:
        yield Complaint(("table_name",), shown(table_name), f"{topic.topic!r}, the topic of this folder")
    keys = {path for path in (topic.keys.idempotency_key, topic.keys.period_reference) if path}
    for index, column in columns.items():
        if column.pii and column.payload_path in keys:
            expected = "false: the key itself stands in the envelope, in clear"
            yield Complaint(("payload_columns", index, "pii"), "pii on a key of the topic", expected)
    numeric = {column.payload_path for column in columns.values() if column.column_type.kind in _NUMERIC}
    for path in topic.totals:
        if path not in numeric:
            expected = f"one: topics/{topic.topic}.yaml sums it (totals)"
            yield Complaint(("payload_columns",), f"no numeric column for {path!r}", expected)


def _nullable_cde(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.cde and column.nullable:
        yield "nullable", "true on a critical data element", "false, or no cde"


def _cde_default(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.cde and column.default is not None:
        yield "default", shown(column.default), "none: a critical data element must come from the source"


def _default_casts(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.default is not None and not column_types.is_exact(
        column.default, column.column_type, column.timestamp_format
    ):
        yield "default", shown(column.default), f"a text that is exactly a {column.type}"


def _format_of_timestamp(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.format is not None and column.column_type.kind != "timestamp":
        yield "format", f"{column.format!r} on a {column.type}", "a format only on a timestamp"


def _pii_is_text(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.pii and column.column_type.kind != "string":
        yield "type", column.type, "string: a PII column stores a hash"
    if column.pii and column.default is not None:
        yield "default", "a default on a PII column", "none: a hash of a constant says nothing"


_COLUMN_RULES: tuple[tuple[ColumnRule, frozenset[str]], ...] = (
    (_nullable_cde, frozenset({"cde", "nullable"})),
    (_cde_default, frozenset({"cde", "default"})),
    (_default_casts, frozenset({"default", "type", "format"})),
    (_format_of_timestamp, frozenset({"format", "type"})),
    (_pii_is_text, frozenset({"pii", "type", "default"})),
)
