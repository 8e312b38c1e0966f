"""The command line. Modules here import light; what a command needs beyond typer it imports when it runs."""

from __future__ import annotations

import sys

import typer

from lean_ops.cli import (
    batch,
    dlq,
    doctor,
    emulate,
    explain,
    local,
    ops,
    output,
    replay,
    run,
    schema,
    send,
    sql,
    topics,
    verify,
)
from lean_ops.errors import LeanOpsError

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
app.add_typer(local.app, name="local")
app.add_typer(ops.app, name="ops")
app.add_typer(dlq.app, name="dlq")
app.add_typer(batch.app, name="batch")
app.add_typer(replay.app, name="replay")
app.add_typer(dlq.firehose_app, name="firehose")
app.command()(doctor.doctor)
app.command()(send.send)
app.command()(emulate.emulate)
app.command()(run.run)
app.command()(sql.sql)
app.command()(verify.verify)
app.command()(explain.explain)


def main() -> None:
    """Run a command; a failure says what, where, why and the next command."""
    output.never_fail_to_encode()
    try:
        app()
    except LeanOpsError as error:
        sys.exit(output.failure(error, as_json="--json" in sys.argv))
    except OSError as error:
        sys.exit(output.failure(LeanOpsError(str(error)), as_json="--json" in sys.argv))
    except KeyboardInterrupt:  # outside of a command; inside of one, typer says that it was aborted
        sys.exit(130)
