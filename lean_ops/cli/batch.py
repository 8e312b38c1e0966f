"""`lean-ops batch`: batches that wait for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.aws.checkpoints import Checkpoints, Hold
    from lean_ops.aws.leases import Leases
    from lean_ops.runtime import Runtime

app = typer.Typer(help="Batches that a fault of their data stopped.", no_args_is_help=True)


@app.command("list")
def held(root: options.Root = None, env: options.Env = "local", as_json: options.Json = False) -> None:
    """List the batches that are on hold, and why."""
    from lean_ops.batch.batch_plan import Hop
    from lean_ops.config.repository import load_topics

    checkpoints, _ = _state(options.runtime(root, env))
    found = [
        hold
        for topic in load_topics(options.repository(root)).checked()
        for hop in get_args(Hop)
        if (hold := checkpoints.load(topic, hop).hold) is not None
    ]
    output.records([_row(hold) for hold in found], as_json=as_json, none="no batch is on hold")


@app.command()
def accept(
    batch_id: Annotated[str, typer.Argument(help="The batch, as its alert names it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why its data are accepted as they are.")],
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Let a batch pass that is on hold. It runs with the topic's next run, under the contract it was planned with."""
    from uuid import uuid4

    from lean_ops.aws.leases import Lease
    from lean_ops.errors import NotFoundError, UsageError

    if not reason.strip():
        raise UsageError("an empty reason", next_step="say why: whoever reads the run history will ask")
    hop, _, rest = batch_id.partition("-")
    topic = rest.partition("-")[0]
    checkpoints, leases = _state(options.runtime(root, env))
    with Lease(leases, topic, uuid4().hex) as lease:
        hold = _held(checkpoints, topic, hop)
        if hold is None or hold.plan.batch_id != batch_id:
            raise NotFoundError(f"batch {batch_id!r} is not on hold", next_step="lean-ops batch list")
        checkpoints.accept(lease.claim, hold, f"{reason.strip()} ({options.person()})")
    output.records([_row(hold) | {"accepted": reason.strip()}], as_json=as_json)


def _held(checkpoints: Checkpoints, topic: str, hop: str) -> Hold | None:
    from lean_ops.batch.batch_plan import Hop

    return next((checkpoints.load(topic, each).hold for each in get_args(Hop) if each == hop), None)


def _state(runtime: Runtime) -> tuple[Checkpoints, Leases]:
    from lean_ops.aws import clients
    from lean_ops.aws.checkpoints import Checkpoints
    from lean_ops.aws.leases import Leases

    dynamodb = clients.client(runtime, "dynamodb")
    leases = Leases(dynamodb, runtime.names)
    return Checkpoints(dynamodb, runtime.names, leases), leases


def _row(hold: Hold) -> dict[str, object]:
    return {
        "batch_id": hold.plan.batch_id,
        "held_at": hold.held_at.isoformat(timespec="seconds"),
        "contract": hold.plan.contract_version,
        "error": hold.error,
        "message": hold.message,
    }
