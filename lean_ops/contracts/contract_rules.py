"""What a contract may not say, beyond the shape of its fields: one small rule per fault.

Rules see the fields that are sound, and are silent about the others: one fault is one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from lean_ops.config.findings import shown
from lean_ops.config.specs import Complaint
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts import column_types
from lean_ops.contracts.spec import ENVELOPE, REQUIRED_ENVELOPE, ColumnSpec
from lean_ops.payload import payload_path

Columns = Mapping[int, ColumnSpec]
Broken = Mapping[int, frozenset[str]]
ColumnRule = Callable[[ColumnSpec], Iterator[tuple[str, str, str]]]

_NUMERIC = ("int", "bigint", "double", "decimal")
_NONE: frozenset[str] = frozenset()


def column_complaints(columns: Columns, broken: Broken) -> Iterator[Complaint]:
    """Faults inside single columns."""
    for index, column in columns.items():
        for rule, fields in _COLUMN_RULES:
            if not broken.get(index, _NONE) & fields:
                for field, found, expected in rule(column):
                    yield Complaint(("payload_columns", index, field), found, expected)


def name_complaints(columns: Columns) -> Iterator[Complaint]:
    """Two columns of one name."""
    first: dict[str, int] = {}
    for index, column in columns.items():
        if first.setdefault(column.name, index) != index:
            expected = f"a name not used by {_at(first[column.name])}"
            yield Complaint(("payload_columns", index, "name"), shown(column.name), expected)


def path_complaints(columns: Columns, broken: Broken) -> Iterator[Complaint]:
    """Two columns of one payload path, or one inside another's: a value has no keys."""
    paths: dict[tuple[str, ...], int] = {}
    for index, column in columns.items():
        if "path" in broken.get(index, _NONE):
            continue
        keys = payload_path.segments(column.payload_path)
        first = paths.setdefault(keys, index)
        if first != index and column.name != columns[first].name:
            yield _path_complaint(columns, index, f"a path not used by {_at(first)}")
    for keys, index in paths.items():
        above = next((paths[keys[:depth]] for depth in range(1, len(keys)) if keys[:depth] in paths), None)
        if above is not None:
            expected = f"a path that is not inside that of {_at(above)}: a value has no keys"
            yield _path_complaint(columns, index, expected)


def envelope_complaints(envelope: Sequence[object]) -> Iterator[Complaint]:
    """Envelope columns are lean-ops' own: four are always there, two are a choice, each stands once."""
    for index, name in enumerate(envelope):
        if name in ENVELOPE and name in envelope[:index]:
            yield Complaint(("envelope_columns", index), f"{shown(name)} a second time", "each column once")
    missing = [name for name in REQUIRED_ENVELOPE if name not in envelope]
    if missing:
        yield Complaint(("envelope_columns",), f"no {', '.join(missing)}", ", ".join(REQUIRED_ENVELOPE))


def topic_complaints(columns: Columns, broken: Broken, topic: TopicSpec) -> Iterator[Complaint]:
    """Faults between the columns and their topic."""
    keys = {path for path in (topic.keys.idempotency_key, topic.keys.period_reference) if path}
    for index, column in columns.items():
        if column.pii and column.payload_path in keys:
            expected = "false: the key itself stands in the envelope, in clear"
            yield Complaint(("payload_columns", index, "pii"), "true on a key of the topic", expected)
    if any(fields & {"name", "path", "type"} for fields in broken.values()):
        return  # the column of a total may be one of those that could not be read
    numeric = {column.payload_path for column in columns.values() if column.column_type.kind in _NUMERIC}
    for path in topic.totals:
        if path not in numeric:
            expected = f"one: topics/{topic.topic}.yaml sums it (totals)"
            yield Complaint(("payload_columns",), f"no numeric column for {shown(path)}", expected)


def _at(index: int) -> str:
    return f"/payload_columns/{index}"


def _path_complaint(columns: Columns, index: int, expected: str) -> Complaint:
    field = "name" if columns[index].path is None else "path"
    return Complaint(("payload_columns", index, field), shown(columns[index].payload_path), expected)


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
        yield "default", shown(column.default), f"text that is exactly of type {column.type}"


def _format_of_timestamp(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.format is not None and column.column_type.kind != "timestamp":
        yield "format", f"{column.format!r} on type {column.type}", "a format only on a timestamp"


def _pii_is_text(column: ColumnSpec) -> Iterator[tuple[str, str, str]]:
    if column.pii and column.column_type.kind != "string":
        yield "type", f"{column.type!r} on a PII column", "'string': a PII column stores a hash"
    if column.pii and column.default is not None:
        yield "default", "a default on a PII column", "none: a hash of a constant says nothing"


_COLUMN_RULES: tuple[tuple[ColumnRule, frozenset[str]], ...] = (
    (_nullable_cde, frozenset({"cde", "nullable"})),
    (_cde_default, frozenset({"cde", "default"})),
    (_default_casts, frozenset({"default", "type", "format"})),
    (_format_of_timestamp, frozenset({"format", "type"})),
    (_pii_is_text, frozenset({"pii", "type", "default"})),
)
