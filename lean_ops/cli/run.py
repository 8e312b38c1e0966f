"""`lean-ops run`: a topic's jobs on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.batch.job import JobResult

HOPS = ("standardize", "curate")


def run(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    hop: Annotated[str | None, typer.Option(help="One hop; all of them by default.")] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Run a topic's hops on the local engine until they have caught up."""
    from lean_ops.aws import clients
    from lean_ops.aws.schema_store import SchemaStore
    from lean_ops.batch.job import JobArguments
    from lean_ops.batch.spark_process import run as run_job
    from lean_ops.config.repository import load_topic

    if hop is not None and hop not in HOPS:
        raise typer.BadParameter(f"{hop!r}: one of {', '.join(HOPS)}")
    runtime = options.runtime(root, env)
    arguments = JobArguments(topic=load_topic(options.repository(root), topic))
    variables = {**runtime.variables(), **clients.variables(runtime)}
    SchemaStore(clients.client(runtime, "s3"), runtime.names).active(
        topic
    )  # told before Spark takes its time
    results = []
    for name in (hop,) if hop else HOPS:
        output.talk(f"{topic}: {name}, starting Spark")
        results.append(run_job(name, arguments, variables, _progress))
        if not as_json:
            _print(results[-1])
        if results[-1].failure is not None:
            break
    if as_json:
        output.data([result.model_dump(mode="json") for result in results])
    failed = any(result.failure is not None for result in results)
    raise typer.Exit(output.FINDINGS if failed else output.FINE)


def _progress(step: dict[str, Any]) -> None:
    if sys.stderr.isatty():
        output.talk(f"  {step['step']:<16} {step.get('seconds', 'failed')} s")


def _print(result: JobResult) -> None:
    for batch in result.batches:
        counts = batch.counts
        output.line(
            f"{batch.batch_id}: {counts['source_rows']} rows: {counts['added_rows']} added, "
            f"{counts['redelivered_rows']} redelivered, {counts['error_messages']} parse errors"
        )
        for warning in batch.warnings:
            output.line(f"  warning: {warning}")
        for event in batch.drift:
            output.line(f"  drift: {event['action']} {event['column']} ({event['path']}) {event['new']}")
    if result.failure is not None:
        output.talk(f"{result.hop} failed ({result.failure.error_class}): {result.failure.message}")
        if result.failure.next_step:
            output.talk(f"  next: {result.failure.next_step}")
    else:
        output.talk(
            f"{result.topic}: {result.hop} {'has caught up' if result.caught_up else 'has more to do'}"
        )
