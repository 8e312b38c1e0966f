"""Read-only SQL over the tables, without a JVM: DuckDB on the local lake, Athena on AWS."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table

from lean_ops import naming, views
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.clients import client
from lean_ops.config.findings import nearest
from lean_ops.errors import LeanOpsError, NotFoundError, UsageError
from lean_ops.named_sql import quoted
from lean_ops.naming import topic_name_fault
from lean_ops.runtime import Runtime

_REFERENCE = re.compile(
    rf'"?\b({"|".join(naming.DATABASES)})\b"?\s*\.\s*"?([a-zA-Z_][a-zA-Z0-9_]*)"?', re.IGNORECASE
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUESTION = re.compile(r"(select|with|show|describe|explain)\b", re.IGNORECASE)
_ATHENA_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Answer:
    """The rows of a query."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


Pins = Mapping[tuple[str, str], int]


def query(runtime: Runtime, statement: str, pins: Pins = MappingProxyType({})) -> Answer:
    """Run one statement; tables are named by database and name, and pinned to a snapshot where one is given."""
    if runtime.environment.emulated:
        return _duckdb(runtime, statement, pins)
    _refuse_changes(statement)
    for identifier, snapshot in pins.items():
        table = quoted(identifier)
        statement = statement.replace(table, f"{table} for version as of {snapshot}")
    return _athena(runtime, statement)


def _refuse_changes(statement: str) -> None:
    """Athena does what it is told; only a question may be told to it."""
    bare = _COMMENT.sub(" ", statement).strip().rstrip(";")
    if ";" in bare or not _QUESTION.match(bare):
        raise UsageError(
            "only one statement that reads is allowed: select, with, show, describe or explain",
            next_step="change tables through the topic's operations, never by hand",
        )


def _duckdb(runtime: Runtime, statement: str, pins: Pins) -> Answer:
    catalog = open_catalog(runtime.environment, runtime.home)
    with connect(catalog, statement, pins) as connection:
        try:
            cursor = connection.execute(statement)
            return Answer(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())
        except duckdb.Error as error:
            raise LeanOpsError(
                f"the query failed: {error}", next_step="lean-ops sql --tables lists them"
            ) from error


def connect(catalog: Catalog, statement: str, pins: Pins = MappingProxyType({})) -> duckdb.DuckDBPyConnection:
    """A connection that sees the tables a statement names, and nothing else of this machine."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    connection.execute("set TimeZone = 'UTC'")
    references = {(database.lower(), table.lower()) for database, table in _REFERENCE.findall(statement)}
    found = {reference: views.named(reference, catalog.table_exists) for reference in references}
    asked = {view: view.query(partial(columns_of, catalog)) for view in found.values() if view}
    direct = {reference for reference, view in found.items() if view is None}
    for identifier in sorted(direct.union(*(view.sources for view in asked))):
        _show(connection, catalog, identifier, pins.get(identifier))
    for view, question in asked.items():
        connection.execute(f'create schema if not exists "{view.identifier[0]}"')
        connection.execute(f"create view {quoted(view.identifier)} as {question}")
    # The views are in memory; from here on nothing can read or write a file.
    connection.execute("set enable_external_access = false")
    return connection


def _show(
    connection: duckdb.DuckDBPyConnection, catalog: Catalog, identifier: tuple[str, str], snapshot: int | None
) -> None:
    database, name = identifier
    connection.execute(f'create schema if not exists "{database}"')
    parts = list(_parts(_load(catalog, database, name), snapshot))
    for index, part in enumerate(parts):
        connection.register(f"{database}__{name}__{index}", part)
    union = " union all by name ".join(
        f'select * from "{database}__{name}__{index}"'  # noqa: S608 - names matched _REFERENCE
        for index in range(len(parts))
    )
    connection.execute(f'create view "{database}"."{name}" as {union}')


def columns_of(catalog: Catalog, identifier: tuple[str, str]) -> list[str]:
    """The names of a table's columns, in its order."""
    return [field.name for field in _load(catalog, *identifier).schema().fields]


def table_names(catalog: Catalog) -> list[str]:
    """Every table there is, and every view on one, by database and name."""
    present = {identifier for database in naming.DATABASES for identifier in catalog.list_tables(database)}
    standardized = (name for database, name in present if database == naming.STANDARDIZED_DATABASE)
    made = (
        naming.ALL_ERRORS,
        *(naming.latest_view(name) for name in standardized if not topic_name_fault(name)),
    )
    on_tables = {identifier for identifier in made if views.named(identifier, present.__contains__)}
    return sorted(".".join(identifier) for identifier in present | on_tables)


def _load(catalog: Catalog, database: str, name: str) -> Table:
    try:
        return catalog.load_table((database, name))
    except NoSuchTableError:
        close = nearest(f"{database}.{name}", table_names(catalog))
        raise NotFoundError(
            f"no table {database}.{name}" + (f"; did you mean {close}?" if close else ""),
            next_step="lean-ops sql --tables lists them",
        ) from None


def _parts(table: Table, snapshot: int | None) -> Iterator[ds.Dataset | pa.Table]:
    """The table as things DuckDB can scan: files without deletes stay lazy, the others are read and merged."""
    tasks = list(table.scan(snapshot_id=snapshot).plan_files())
    yield dataset(table, [task for task in tasks if not task.delete_files])
    touched = [task for task in tasks if task.delete_files]
    if touched:
        scan = table.scan()
        reader = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
        yield reader.to_table(touched)


def dataset(table: Table, tasks: Sequence[FileScanTask]) -> ds.Dataset:
    """Files of a table as something that is read lazily, with the columns that the table has now."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    format_ = ds.ParquetFileFormat()
    fragments = []
    for task in tasks:
        opened: Any = table.io.new_input(task.file.file_path)
        fragments.append(format_.make_fragment(opened._path, opened._filesystem))
    return ds.FileSystemDataset(fragments, schema, format_) if fragments else ds.dataset(schema.empty_table())


def _athena(runtime: Runtime, statement: str) -> Answer:
    athena = client(runtime, "athena")
    execution = athena.start_query_execution(
        QueryString=statement,
        QueryExecutionContext={"Catalog": "AwsDataCatalog"},
        ResultConfiguration={"OutputLocation": f"s3://{runtime.names.ops_bucket}/athena/"},
    )["QueryExecutionId"]
    while True:
        status = athena.get_query_execution(QueryExecutionId=execution)["QueryExecution"]["Status"]
        if status["State"] == "SUCCEEDED":
            break
        if status["State"] in ("FAILED", "CANCELLED"):
            raise LeanOpsError(f"the query failed: {status.get('StateChangeReason', status['State'])}")
        time.sleep(_ATHENA_POLL_SECONDS)
    rows: list[tuple[Any, ...]] = []
    for page in athena.get_paginator("get_query_results").paginate(QueryExecutionId=execution):
        rows.extend(
            tuple(cell.get("VarCharValue") for cell in row["Data"]) for row in page["ResultSet"]["Rows"]
        )
    # Athena's first row is the header.
    return Answer(tuple(rows[0]), rows[1:]) if rows else Answer((), [])
