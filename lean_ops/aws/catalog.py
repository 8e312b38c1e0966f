"""Opens an environment's Iceberg catalog without a JVM: SQLite and files, or Glue and S3."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog

from lean_ops import naming
from lean_ops.aws import clients
from lean_ops.config.environments import EnvironmentSpec
from lean_ops.runtime import Runtime


def catalog_database(home: Path) -> Path:
    """The SQLite file that pyiceberg and Spark's JDBC catalog share."""
    return home / "catalog.db"


def warehouse(environment: EnvironmentSpec, home: Path) -> str:
    """Where the tables' files live."""
    if environment.catalog.kind == "glue":
        return f"s3://{environment.names.lake_bucket}/warehouse"
    return f"file://{home / 'warehouse'}"


def open_catalog(environment: EnvironmentSpec, home: Path) -> Catalog:
    """The environment's catalog; the databases exist afterwards."""
    location = warehouse(environment, home)
    if environment.catalog.kind == "sqlite":
        home.mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{catalog_database(home)}"
        catalog = load_catalog(naming.CATALOG, type="sql", uri=uri, warehouse=location)
    else:
        properties = {"type": "glue", "warehouse": location, "client.region": environment.region}
        if environment.emulated:
            properties |= _emulated(Runtime(environment, home))
        catalog = load_catalog(naming.CATALOG, **properties)
    for database in naming.DATABASES:
        catalog.create_namespace_if_not_exists(database)
    return catalog


def _emulated(runtime: Runtime) -> dict[str, str]:
    """pyiceberg has its own clients of Glue and S3: both have to be told where the emulation is."""
    credentials = {"client.access-key-id": "local", "client.secret-access-key": "local"}
    return {
        "glue.endpoint": clients.endpoint(runtime, "glue"),
        "s3.endpoint": clients.endpoint(runtime, "s3"),
        **credentials,
    }
