"""`lean-ops ops`: the upkeep of the operational tables."""

from __future__ import annotations

import typer

from lean_ops.cli import options, output

app = typer.Typer(help="The operational tables: run history, drift log and the like.", no_args_is_help=True)


@app.command()
def flush(env: options.Env = "local", root: options.Root = None, as_json: options.Json = False) -> None:
    """Move what waits in the outbox to ops_db, exactly once."""
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


@app.command("drift-catch-up")
def drift_catch_up(
    env: options.Env = "local", root: options.Root = None, as_json: options.Json = False
) -> None:
    """Tell the drift log of columns that are older than it. Told ones are not told again."""
    from collections import Counter

    from lean_ops.aws import clients
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.drift_catch_up import catch_up
    from lean_ops.aws.outbox import Outbox
    from lean_ops.aws.registry import Registry

    runtime = options.runtime(root, env)
    dynamodb = clients.client(runtime, "dynamodb")
    topics = [entry.topic for entry in Registry(dynamodb, runtime.names).all()]
    catalog = open_catalog(runtime.environment, runtime.home)
    told = catch_up(catalog, Outbox(dynamodb, runtime.names), topics)
    counts = Counter((event.values["topic_name"], event.values["source_layer"]) for event in told)
    rows = [{"topic": topic, "layer": layer, "columns": n} for (topic, layer), n in sorted(counts.items())]
    output.records(rows, as_json=as_json)
    output.talk(
        f"{len(told)} columns told; next: lean-ops ops flush" if told else "every column is in the log"
    )
