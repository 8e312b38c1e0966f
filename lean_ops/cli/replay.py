"""`lean-ops replay`: records that failed under their contract, once more."""

from __future__ import annotations

from typing import Annotated

import typer

from lean_ops.cli import options, output
from lean_ops.cli.run import run_hop

app = typer.Typer(help="Records that failed under their contract, once more.", no_args_is_help=True)


@app.callback()
def replay() -> None:
    """Records that failed under their contract, once more."""


@app.command()
def errors(
    topic: Annotated[str, typer.Option("--topic", help="The topic.")],
    *,
    code: Annotated[str | None, typer.Option("--code", help="Only this error code.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Detected since: 2026-11-18, 2026-11-18T08:00Z, or 24h, 7d ago."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")] = False,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Validate open errors under the active contract. Counts first; what is valid now is merged."""
    import time
    from collections import Counter

    from lean_ops import tables
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.open_errors import open_errors
    from lean_ops.batch.batch_plan import ErrorSelection
    from lean_ops.batch.job import JobArguments
    from lean_ops.config.repository import load_topic
    from lean_ops.identity import to_datetime
    from lean_ops.ingestion.moments import moment

    runtime, spec = options.runtime(root, env), load_topic(options.repository(root), topic)
    asked_since = None if since is None else to_datetime(moment(since, time.time()))
    selection = ErrorSelection(error_code=code, since=asked_since)
    table = open_catalog(runtime.environment, runtime.home).load_table(tables.ERRORS.identifier)
    counts = Counter(each.error_code for each in open_errors(table, topic, selection))
    rows = [{"code": each, "open": count} for each, count in sorted(counts.items())]
    if dry_run or not counts:
        output.records(rows, as_json=as_json, none=f"no such open error of {topic}")
        if counts:
            output.talk(f"how many of all would heal is told by: lean-ops schema plan {topic}")
        return
    if not as_json:
        output.records(rows, as_json=False)
    result = run_hop("replay", JobArguments(topic=spec, selection=selection), runtime, as_json=as_json)
    if as_json:
        output.data(result.model_dump(mode="json"))
    raise typer.Exit(output.FINE if result.failure is None else output.FINDINGS)
