"""Compares two contracts: every difference, how dangerous it is, and what it asks of the data already stored.

safe      readers and stored rows are unaffected (add optional, legal Iceberg widening, documentation)
warning   readers may see something new (NULLs, hashes), stored rows stay right
breaking  stored rows or readers are wrong until the table is rebuilt: needs a new major version
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lean_ops.config.topics import KeysSpec
from lean_ops.contracts.spec import ColumnSpec, ContractSpec


class Impact(StrEnum):
    """How dangerous a difference is, mildest first."""

    SAFE = "safe"
    WARNING = "warning"
    BREAKING = "breaking"


_ORDER = (Impact.SAFE, Impact.WARNING, Impact.BREAKING)


@dataclass(frozen=True)
class Difference:
    """One difference between two contracts."""

    change: str
    column: str
    impact: Impact
    detail: str
    rebuild: str = ""

    def as_dict(self) -> dict[str, str]:
        return {
            "change": self.change,
            "column": self.column,
            "impact": self.impact.value,
            "detail": self.detail,
            "rebuild": self.rebuild,
        }


@dataclass(frozen=True)
class Comparison:
    """All differences, and whether the new version number admits them."""

    old_version: str
    new_version: str
    differences: tuple[Difference, ...]
    version_fault: str

    @property
    def impact(self) -> Impact:
        impacts = [difference.impact for difference in self.differences]
        return max(impacts, key=_ORDER.index, default=Impact.SAFE)

    @property
    def allowed(self) -> bool:
        """Whether the new contract may replace the old one."""
        return not self.version_fault


def compare(
    old: ContractSpec, new: ContractSpec, *, keys: tuple[KeysSpec, KeysSpec] | None = None
) -> Comparison:
    """Classify every difference. The keys, old and new, stand in the topic file, where they are reviewed."""
    differences = (
        *_table_differences(old, new),
        *(_key_differences(*keys) if keys else ()),
        *_envelope_differences(old, new),
        *_column_differences(old, new),
    )
    return Comparison(old.version, new.version, differences, _version_fault(old, new, differences))


def _version_fault(old: ContractSpec, new: ContractSpec, differences: tuple[Difference, ...]) -> str:
    before, after = old.version_numbers, new.version_numbers
    if any(difference.impact is Impact.BREAKING for difference in differences) and after[0] <= before[0]:
        return f"breaking changes need a new major version: at least {before[0] + 1}.0, not {new.version}"
    if differences and after <= before:
        return f"a changed contract needs a higher version than {old.version}, not {new.version}"
    if not differences and after < before:
        return f"version {new.version} is older than {old.version}"
    return ""


def _table_differences(old: ContractSpec, new: ContractSpec) -> Iterator[Difference]:
    if old.table_name != new.table_name:
        yield Difference(
            "table_renamed", "", Impact.BREAKING, f"{old.table_name} → {new.table_name}",
            "a new topic: the old table keeps its rows",
        )  # fmt: skip
    if old.description != new.description:
        yield Difference("documented", "", Impact.SAFE, "description of the table")


def _key_differences(old: KeysSpec, new: KeysSpec) -> Iterator[Difference]:
    for key in ("idempotency_key", "period_reference"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            yield Difference(
                "key_changed", key, Impact.BREAKING, f"{before or 'envelope'} → {after or 'envelope'}",
                "rebuild Standardized and Curated from RAW: rows are identified differently",
            )  # fmt: skip


def _envelope_differences(old: ContractSpec, new: ContractSpec) -> Iterator[Difference]:
    for name in new.envelope_columns:
        if name not in old.envelope_columns:
            yield Difference("column_added", name, Impact.SAFE, "envelope column")
    for name in old.envelope_columns:
        if name not in new.envelope_columns:
            yield _dropped(name, "envelope column")


def _column_differences(old: ContractSpec, new: ContractSpec) -> Iterator[Difference]:
    renamed = _renames(old, new)
    for column in new.payload_columns:
        before = old.column(column.name)
        if before is not None:
            yield from _changes(before, column)
        elif column.name in renamed.values():
            former = next(name for name, later in renamed.items() if later == column.name)
            yield Difference(
                "column_renamed", column.name, Impact.BREAKING, f"{former} → {column.name}",
                "rebuild Curated from Standardized: stored rows carry the old name",
            )  # fmt: skip
            yield from _changes(_require(old.column(former)), column)
        else:
            yield _added(column)
    for column in old.payload_columns:
        if new.column(column.name) is None and column.name not in renamed:
            yield _dropped(column.name, f"{column.type} from {column.payload_path}")


def _renames(old: ContractSpec, new: ContractSpec) -> dict[str, str]:
    """Old name → new name where a column vanished and another with its payload path appeared."""
    appeared = {
        column.payload_path: column.name for column in new.payload_columns if old.column(column.name) is None
    }
    return {
        column.name: appeared[column.payload_path]
        for column in old.payload_columns
        if new.column(column.name) is None and column.payload_path in appeared
    }


def _added(column: ColumnSpec) -> Difference:
    if column.required:  # even with a default: Iceberg's format 2 cannot fill the rows already stored
        return Difference(
            "required_added", column.name, Impact.BREAKING, f"{column.type}, required",
            "rebuild Curated from Standardized: stored rows have no value for it",
        )  # fmt: skip
    return Difference("column_added", column.name, Impact.SAFE, f"{column.type}, optional")


def _dropped(name: str, detail: str) -> Difference:
    return Difference("column_dropped", name, Impact.BREAKING, detail, "rebuild Curated without the column")


def _changes(old: ColumnSpec, new: ColumnSpec) -> Iterator[Difference]:
    name = new.name
    if old.payload_path != new.payload_path:
        yield Difference(
            "source_changed", name, Impact.BREAKING, f"{old.payload_path} → {new.payload_path}",
            "rebuild Curated from Standardized: stored rows took the value from another path",
        )  # fmt: skip
    if old.type != new.type:
        yield _type_change(old, new)
    if old.timestamp_format != new.timestamp_format:
        yield Difference(
            "format_changed", name, Impact.BREAKING, f"{old.timestamp_format} → {new.timestamp_format}",
            "rebuild Curated from Standardized: the same text means another time",
        )  # fmt: skip
    yield from _requirement_changes(old, new)
    if old.pii != new.pii:
        yield _pii_change(new)
    if old.default != new.default:
        detail = f"{old.default!r} → {new.default!r}: stored rows keep the old one"
        yield Difference("default_changed", name, Impact.WARNING, detail)
    if old.description != new.description:
        yield Difference("documented", name, Impact.SAFE, "description")


def _type_change(old: ColumnSpec, new: ColumnSpec) -> Difference:
    detail = f"{old.type} → {new.type}"
    if old.column_type.widens_to(new.column_type):
        return Difference("type_widened", new.name, Impact.SAFE, detail)
    return Difference(
        "type_changed", new.name, Impact.BREAKING, detail,
        "rebuild Curated from Standardized: Iceberg cannot change this type in place",
    )  # fmt: skip


def _requirement_changes(old: ColumnSpec, new: ColumnSpec) -> Iterator[Difference]:
    if old.required and not new.required:
        yield Difference("requirement_relaxed", new.name, Impact.WARNING, "NULL becomes possible")
    elif new.required and not old.required:
        yield Difference(
            "requirement_added", new.name, Impact.BREAKING, "NULL becomes an error",
            "rebuild Curated from Standardized: stored rows may hold NULL",
        )  # fmt: skip
    elif old.cde != new.cde:
        detail = "now a critical data element" if new.cde else "no longer a critical data element"
        yield Difference("cde_changed", new.name, Impact.WARNING, detail)


def _pii_change(new: ColumnSpec) -> Difference:
    if new.pii:
        return Difference(
            "pii_on", new.name, Impact.WARNING, "stored as a keyed hash from now on",
            "rebuild Curated to hash the rows already stored",
        )  # fmt: skip
    return Difference(
        "pii_off", new.name, Impact.BREAKING, "stored in clear from now on",
        "rebuild Curated from Standardized: a hash cannot be turned back",
    )  # fmt: skip


def _require(column: ColumnSpec | None) -> ColumnSpec:
    if column is None:
        raise LookupError("a rename names a column of the old contract")
    return column
