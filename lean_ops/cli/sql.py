"""`lean-ops sql`: read-only questions to the tables."""

from __future__ import annotations

from typing import Annotated

import typer

from lean_ops.cli import options, output


def sql(
    statement: Annotated[str, typer.Argument(help="A query; tables by database and name.")] = "",
    tables: Annotated[bool, typer.Option("--tables", help="List the tables instead.")] = False,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Ask the tables: DuckDB on the local lake, Athena on AWS. Nothing can be changed."""
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.sql import query, table_names

    runtime = options.runtime(root, env)
    if tables:
        rows = [{"table": name} for name in table_names(open_catalog(runtime.environment, runtime.home))]
        output.records(rows, as_json=as_json)
        return
    if not statement:
        raise typer.BadParameter("name a query, or --tables")
    answer = query(runtime, statement)
    if as_json:
        output.data(answer.records())
    else:
        output.table(answer.columns, answer.rows)
        output.talk(f"{len(answer.rows)} row{'s' * (len(answer.rows) != 1)}")
