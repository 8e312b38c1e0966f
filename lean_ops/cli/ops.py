"""`lean-ops ops`: the upkeep of the operational tables."""

from __future__ import annotations

import typer

from lean_ops.cli import options, output

app = typer.Typer(help="The operational tables: run history, drift log and the like.", no_args_is_help=True)


@app.callback()
def ops() -> None:
    """A group even while it has one command."""


@app.command()
def flush(env: options.Env = "local", root: options.Root = None, as_json: options.Json = False) -> None:
    """Move what waits in the outbox to ops_db: one commit per table, every event exactly once."""
    from uuid import uuid4

    from lean_ops.aws import clients
    from lean_ops.aws import outbox as outboxes
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.leases import Leases
    from lean_ops.batch.steps import Steps

    runtime = options.runtime(root, env)
    dynamodb = clients.client(runtime, "dynamodb")
    appended = outboxes.flush(
        open_catalog(runtime.environment, runtime.home),
        outboxes.Outbox(dynamodb, runtime.names),
        Leases(dynamodb, runtime.names),
        f"ops-flush-{uuid4().hex}",
        Steps(log=lambda _: None),
    )
    output.records([{"table": name, "rows": rows} for name, rows in appended.items()], as_json=as_json)
    if not appended:
        output.talk("nothing was waiting")
