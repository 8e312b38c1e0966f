"""Creates and corrects Iceberg tables from their specs. Idempotent: running it again changes nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
)

from lean_ops.errors import LeanOpsError, RetryableError
from lean_ops.tables import Column, Partition, TableSpec

_FIRST_PARTITION_ID = 1000
_ATTEMPTS = 20
_WIDER = {(IntegerType, LongType), (FloatType, DoubleType)}


def ensure_table(catalog: Catalog, spec: TableSpec, *, sleep: Callable[[float], None] = time.sleep) -> Table:
    """The table as its spec wants it: created when missing, else evolved and its properties set right.

    A first empty snapshot is written at creation, so that every reader has a place to start from. When somebody
    else changes the table meanwhile, what is left to do is found out anew.
    """
    for attempt in range(_ATTEMPTS):
        try:
            table = catalog.load_table(spec.identifier)
        except NoSuchTableError:
            table = _create(catalog, spec)
        _check_partitions(table, spec)
        try:
            _correct(table, spec)
            if table.current_snapshot() is None:
                table.append(table.schema().as_arrow().empty_table())
        except CommitFailedException:
            sleep(random.uniform(0, 0.05 * 2 ** min(attempt, 5)))  # noqa: S311
        else:
            return table
    raise RetryableError(f"{'.'.join(spec.identifier)} stayed contended", table=spec.identifier)


def check_table(catalog: Catalog, spec: TableSpec) -> None:
    """Raise what `ensure_table` would raise about the spec, and change nothing."""
    try:
        table = catalog.load_table(spec.identifier)
    except NoSuchTableError:
        return
    _check_partitions(table, spec)
    # Never committed: only to hear what it refuses.
    _evolve(table.update_schema(), table.schema(), spec)


def add_columns(catalog: Catalog, spec: TableSpec, columns: Iterable[Column]) -> Table:
    """The table with these columns too, in one commit; those it has already are left alone."""
    return ensure_table(catalog, replace(spec, columns=(*spec.columns, *columns)))


def _create(catalog: Catalog, spec: TableSpec) -> Table:
    schema = Schema(*(_field(index, column) for index, column in enumerate(spec.columns, start=1)))
    try:
        return catalog.create_table(
            spec.identifier,
            schema,
            partition_spec=_partition_spec(schema, spec.partitions),
            sort_order=SortOrder(
                *(
                    SortField(schema.find_field(name).field_id, IdentityTransform())
                    for name in spec.sort_columns
                )
            ),
            properties=spec.properties,
        )
    except TableAlreadyExistsError:
        return catalog.load_table(spec.identifier)


def _field(field_id: int, column: Column) -> NestedField:
    return NestedField(
        field_id=field_id,
        name=column.name,
        field_type=PrimitiveType.model_validate(column.type),
        required=column.required,
        doc=column.doc or None,
    )


def _partition_spec(schema: Schema, partitions: tuple[Partition, ...]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(partition.column).field_id,
                field_id=_FIRST_PARTITION_ID + index,
                transform=DayTransform() if partition.transform == "day" else IdentityTransform(),
                name=_partition_name(partition),
            )
            for index, partition in enumerate(partitions)
        )
    )


def _partition_name(partition: Partition) -> str:
    return f"{partition.column}_day" if partition.transform == "day" else partition.column


def _check_partitions(table: Table, spec: TableSpec) -> None:
    schema = table.schema()
    found = [
        (schema.find_column_name(field.source_id), str(field.transform)) for field in table.spec().fields
    ]
    expected = [(partition.column, partition.transform) for partition in spec.partitions]
    if found != expected:
        raise LeanOpsError(
            f"{'.'.join(spec.identifier)} is partitioned by {found}, not by {expected}",
            next_step="rebuild the table: partitions of a table with data are never changed in place",
            table=spec.identifier,
        )


def _correct(table: Table, spec: TableSpec) -> None:
    """One commit for everything that differs, none when nothing does."""
    drifted = {key: value for key, value in spec.properties.items() if table.properties.get(key) != value}
    drifted.pop("format-version", None)  # a property at creation only: afterwards it is the table's own field
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            _evolve(update, table.schema(), spec)
        if drifted:
            transaction.set_properties(drifted)
        if spec.sort_columns and _sorted_by(table) != list(spec.sort_columns):
            with transaction.update_sort_order() as order:
                for name in spec.sort_columns:
                    order.asc(name, IdentityTransform())


def _evolve(update: UpdateSchema, schema: Schema, spec: TableSpec) -> None:
    """Only what keeps every stored row readable: columns are added, widened, relaxed and documented."""
    present = {field.name: field for field in schema.fields}
    for column in spec.columns:
        field = present.pop(column.name, None)
        wanted = PrimitiveType.model_validate(column.type)
        if field is None:
            # Never required: the rows that are there already have no value.
            update.add_column(column.name, wanted, doc=column.doc or None)
            continue
        if not _widens(field.field_type, wanted) and not _widens(wanted, field.field_type):
            raise LeanOpsError(
                f"{'.'.join(spec.identifier)}: {column.name} is {field.field_type}, and cannot become {wanted}",
                next_step="rebuild the table; or keep the column, and add the new one under another name",
                table=spec.identifier,
                column=column.name,
            )
        update.update_column(
            column.name,
            field_type=wanted if _widens(field.field_type, wanted) else None,
            required=None if column.required else False,
            doc=column.doc or None,
        )
    for leftover in present.values():
        # Who writes by this spec has no value for it.
        update.make_column_optional(leftover.name)


def _widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Iceberg's own rule. pyiceberg's lets the scale of a decimal change, which no reader could read."""
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        return narrow.scale == wide.scale and narrow.precision <= wide.precision
    return narrow == wide or (type(narrow), type(wide)) in _WIDER


def _sorted_by(table: Table) -> list[str | None]:
    return [table.schema().find_column_name(field.source_id) for field in table.sort_order().fields]
