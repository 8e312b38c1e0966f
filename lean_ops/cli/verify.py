"""`lean-ops verify`: the books, recomputed from the tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.aws.verification import Verification
    from lean_ops.config.topics import TopicSpec
    from lean_ops.runtime import Runtime

_FAULTS = ("missing", "doubled", "foreign_rows")
SHOWN = ("day", "raw_rows", "messages", "standardized", "parse_errors", *_FAULTS)
CURATED_SHOWN = ("day", "standardized", "held", "superseded", "open_errors", *_FAULTS)


def verify(
    topic: Annotated[str | None, typer.Argument(help="One topic; all of them by default.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Derive a sample of values from RAW once more.")
    ] = False,
    sample: Annotated[int, typer.Option(min=1, help="How many messages --deep derives.")] = 200,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Prove from the tables that each message is in exactly one place. Exit code 1 when one is not."""
    from lean_ops.aws.verification import Verifier
    from lean_ops.config.repository import load_topic, load_topics

    repository, runtime = options.repository(root), options.runtime(root, env)
    topics = [load_topic(repository, topic)] if topic else list(load_topics(repository).checked().values())
    count = sample if deep else 0
    results = [(Verifier(runtime, spec).verify(count), _curated(runtime, spec, count)) for spec in topics]
    checks = [check for both in results for result in both for check in result.checks]
    failed = sum(not check.passed for check in checks)
    if as_json:
        output.data([_as_dict(*both) for both in results])
    else:
        for first, second in results:
            _print(first, SHOWN, "RAW")
            _print(second, CURATED_SHOWN, "Standardized")
        output.line(f"verify: {len(checks) - failed} passed, {failed} failed")
    raise typer.Exit(output.FINDINGS if failed else output.FINE)


def _curated(runtime: Runtime, topic: TopicSpec, sample: int) -> Verification:
    from lean_ops.aws.clients import client
    from lean_ops.aws.curated_verification import CuratedVerifier, Derivation
    from lean_ops.aws.schema_store import SchemaStore

    derivation = None
    if sample:
        store = SchemaStore(client(runtime, "s3"), runtime.names)
        derivation = Derivation(sample, partial(store.of_version, topic.topic))
    return CuratedVerifier(runtime, topic).verify(derivation)


def _print(result: Verification, shown: Sequence[str], source: str) -> None:
    output.line(f"{result.topic}: {result.waiting} rows of {source} are waiting")
    if result.waiting and not result.checks:
        output.talk(f"  next: lean-ops run {result.topic}, for nothing of it is processed yet")
    if result.days:
        output.table(shown, [[day[column] for column in shown] for day in result.days])
    for check in result.checks:
        output.line(f"{'ok  ' if check.passed else 'FAIL'}  {check.statement}")
        if check.detail:
            output.line(f"      {check.detail}")


def _as_dict(first: Verification, second: Verification) -> dict[str, Any]:
    return {"topic": first.topic, **_line(first), "curated": _line(second)}


def _line(result: Verification) -> dict[str, Any]:
    # Fingerprints exceed what JSON numbers can hold everywhere: they stay text.
    days = [
        {name: value if isinstance(value, int) else str(value) for name, value in day.items()}
        for day in result.days
    ]
    return {"waiting": result.waiting, "days": days, "checks": [vars(check) for check in result.checks]}
