"""Creates and corrects Iceberg tables from their specs. Idempotent: running it again changes nothing."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import NestedField, PrimitiveType

from lean_ops.errors import LeanOpsError
from lean_ops.tables import Column, Partition, TableSpec

_FIRST_PARTITION_ID = 1000


def ensure_table(catalog: Catalog, spec: TableSpec) -> Table:
    """The table as its spec wants it: created when missing, else widened and its properties set right.

    A first empty snapshot is written at creation, so that every reader has a place to start from.
    """
    try:
        table = catalog.load_table(spec.identifier)
    except NoSuchTableError:
        table = _create(catalog, spec)
    _check_partitions(table, spec)
    _correct(table, spec)
    if table.current_snapshot() is None:
        table.append(table.schema().as_arrow().empty_table())
    return table


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
    found = [field.name for field in table.spec().fields]
    expected = [_partition_name(partition) for partition in spec.partitions]
    if found != expected:
        raise LeanOpsError(
            f"{'.'.join(spec.identifier)} is partitioned by {found}, not by {expected}",
            next_step="rebuild the table: partitions of a table with data are never changed in place",
            table=spec.identifier,
        )


def _correct(table: Table, spec: TableSpec) -> None:
    present = {field.name for field in table.schema().fields}
    missing = [column for column in spec.columns if column.name not in present]
    drifted = {key: value for key, value in spec.properties.items() if table.properties.get(key) != value}
    drifted.pop("format-version", None)  # a property at creation only: afterwards it is the table's own field
    if missing:
        with table.update_schema() as update:
            for column in missing:
                update.add_column(
                    column.name, PrimitiveType.model_validate(column.type), doc=column.doc or None
                )
    if drifted:
        with table.transaction() as transaction:
            transaction.set_properties(drifted)
