"""`lean-ops sql`: read-only questions to the tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.runtime import Runtime


def sql(
    statement: Annotated[str, typer.Argument(help="A query; tables by database and name.")] = "",
    tables: Annotated[bool, typer.Option("--tables", help="List the tables and views instead.")] = False,
    named: Annotated[
        str | None, typer.Option("--named", help="A shipped query: accountability, cross_period or drift.")
    ] = None,
    views: Annotated[
        bool, typer.Option("--views", help="Print the statements that make the views in Athena.")
    ] = False,
    topic: Annotated[str | None, typer.Option("--topic", help="The topic of --named and --views.")] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the statement of --named instead of asking it.")
    ] = False,
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
    if views:
        output.line(_view_statements(runtime, _required(topic)))
        return
    if named:
        statement = _shipped(named, _required(topic))
    if not statement:
        raise typer.BadParameter("a query, --named, --views or --tables")
    if print_:
        output.line(statement)
        return
    answer = query(runtime, statement)
    if as_json:
        output.data(answer.records())
    else:
        output.table(answer.columns, answer.rows)
        output.talk(f"{len(answer.rows)} row{'s' * (len(answer.rows) != 1)}")


def _required(topic: str | None) -> str:
    from lean_ops.naming import topic_name_fault

    if topic is None:
        raise typer.BadParameter("--topic says about which topic")
    fault = topic_name_fault(topic)
    if fault:
        raise typer.BadParameter(f"--topic {topic!r}: {fault}")
    return topic


def _shipped(name: str, topic: str) -> str:
    from lean_ops.named_queries import NAMES
    from lean_ops.named_queries import statement as named_statement

    if name not in NAMES:
        raise typer.BadParameter(f"--named {name!r}: one of {', '.join(NAMES)}")
    return named_statement(name, topic)


def _view_statements(runtime: Runtime, topic: str) -> str:
    from lean_ops import naming, views
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.sql import columns_of

    catalog = open_catalog(runtime.environment, runtime.home)
    wanted = (naming.latest_view(topic), naming.ALL_ERRORS)
    made = [views.named(identifier, catalog.table_exists) for identifier in wanted]
    return ";\n\n".join(view.ddl(partial(columns_of, catalog)) for view in made if view) + ";"
