"""`lean-ops run`: a topic's jobs on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.batch.batch_result import BatchResult
    from lean_ops.batch.job import JobArguments, JobResult
    from lean_ops.runtime import Runtime

HOPS = ("standardize", "curate")


def run(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    hop: Annotated[str | None, typer.Option(help="One hop; all of them by default.")] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Run a topic's hops on this machine until they have caught up."""
    from lean_ops.aws import clients
    from lean_ops.aws.schema_store import SchemaStore
    from lean_ops.batch.job import JobArguments
    from lean_ops.config.repository import load_topic

    if hop is not None and hop not in HOPS:
        raise typer.BadParameter(f"{hop!r}: one of {', '.join(HOPS)}")
    runtime = options.runtime(root, env)
    arguments = JobArguments(topic=load_topic(options.repository(root), topic))
    # Told before Spark takes its time.
    SchemaStore(clients.client(runtime, "s3"), runtime.names).active(topic)
    results = []
    for name in (hop,) if hop else HOPS:
        results.append(run_hop(name, arguments, runtime, as_json=as_json))
        if results[-1].failure is not None:
            break
    if as_json:
        output.data([result.model_dump(mode="json") for result in results])
    failed = any(result.failure is not None for result in results)
    raise typer.Exit(output.FINDINGS if failed else output.FINE)


def run_hop(hop: str, arguments: JobArguments, runtime: Runtime, *, as_json: bool) -> JobResult:
    """One hop to its end, on the warm Spark process if there is one; prints what it did."""
    from lean_ops.aws import clients
    from lean_ops.batch.local_job import LocalJob

    job = LocalJob(runtime.home, {**runtime.variables(), **clients.variables(runtime)})
    if not job.warm:
        output.talk(f"{arguments.topic.topic}: {hop}, starting Spark")
    result = job.run(hop, arguments, _progress)
    if not as_json:
        _print(result)
    return result


def _progress(step: dict[str, Any]) -> None:
    if sys.stderr.isatty():
        output.talk(f"  {step['step']:<16} {step.get('seconds', 'failed')} s")


def _print(result: JobResult) -> None:
    for batch in result.batches:
        output.line(f"{batch.batch_id}: {_outcomes(batch)}")
        for alert in batch.alerts:
            output.line(f"  alert: {alert}")
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


def _outcomes(batch: BatchResult) -> str:
    counts = batch.counts
    if batch.hop == "standardize":
        return (
            f"{counts['source_rows']} rows: {counts['added_rows']} added, "
            f"{counts['redelivered_rows']} redelivered, {counts['error_messages']} parse errors"
        )
    return (
        f"{counts['source_rows']} records: {counts['added_rows']} keys added, "
        f"{counts['updated_rows']} updated, {counts['superseded_messages']} superseded, "
        f"{counts['error_messages']} errors"
    )
