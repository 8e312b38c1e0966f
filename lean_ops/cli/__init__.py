"""The command line. Modules here import light; what a command needs beyond typer it imports when it runs."""

from __future__ import annotations

import sys

import typer

from lean_ops.cli import doctor, output, schema, sql, topics
from lean_ops.errors import LeanOpsError, NotFoundError

app = typer.Typer(
    name="lean-ops",
    help="Pub/Sub topics into governed Iceberg tables, every record accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(topics.app, name="topics")
app.add_typer(schema.app, name="schema")
app.command()(doctor.doctor)
app.command()(sql.sql)


def main() -> None:
    """Run a command; a failure says what, where, why and the next command."""
    try:
        app()
    except LeanOpsError as error:
        output.talk(f"lean-ops: {error}")
        if error.next_step:
            output.talk(f"  next: {error.next_step}")
        sys.exit(output.USAGE if isinstance(error, NotFoundError) else output.FINDINGS)
    except BrokenPipeError:
        sys.exit(output.FINE)
