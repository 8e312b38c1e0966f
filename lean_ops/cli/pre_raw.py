"""`lean-ops dlq balance`: the books upstream of RAW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import options, output
from lean_ops.ingestion.pre_raw import TOLERANCE

if TYPE_CHECKING:
    from lean_ops.ingestion.pre_raw import PreRawBalance

Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0, max=1, help="The share that may be missing without showing.")
]
Received = Annotated[
    int | None,
    typer.Option("--received", min=0, help="What its sender counted; by default what the processor did."),
]


def balance(
    topic: Annotated[str, typer.Option("--topic", help="The topic.")],
    received: Received = None,
    tolerance: Tolerance = TOLERANCE,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Balance what was received with RAW. The rest is duplicates, open errors and what was closed."""
    from dataclasses import asdict

    from lean_ops.aws import ingestion, recovery
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.config.repository import load_topic

    load_topic(options.repository(root), topic)
    runtime = options.runtime(root, env)
    catalog = open_catalog(runtime.environment, runtime.home)
    books = recovery.pre_raw_balance(catalog, ingestion.books(runtime), topic, received=received)
    facts = asdict(books) | {"difference": books.difference, "unseen": books.unseen, "tolerance": tolerance}
    output.records([facts], as_json=as_json)
    fine = books.balanced and books.certain(tolerance)
    output.talk(_verdict(books, tolerance))
    raise typer.Exit(output.FINE if fine else output.FINDINGS)


def _verdict(books: PreRawBalance, tolerance: float) -> str:
    if not books.balanced:
        off = "the books do not balance; they can only once queues and buffers are empty"
        would = f"\n  a difference from -{books.overstated} to {books.understated} would balance"
        return off + would * bool(books.overstated or books.understated)
    if not books.unseen:
        return "the books balance"
    could = f"{books.unseen} could be missing unseen"
    if books.certain(tolerance):
        return f"the books balance; {could}, within the tolerance of {tolerance:.2%}"
    advice = "  next: --received with what the sender counted, or a greater --tolerance"
    return f"the books are uncertain: {could}, beyond the tolerance of {tolerance:.2%}\n{advice}"
