"""`lean-ops verify`: the books, recomputed from the tables alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lean_ops.cli import options, output

SHOWN = ("day", "raw_rows", "messages", "standardized", "parse_errors", "missing", "doubled", "foreign_rows")


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
    """Prove from the tables that every message ended in exactly one place; exit 1 when one did not."""
    from lean_ops.aws.verification import Verifier
    from lean_ops.config.repository import load_topic, load_topics

    repository, runtime = options.repository(root), options.runtime(root, env)
    topics = [load_topic(repository, topic)] if topic else list(load_topics(repository).checked().values())
    results = [Verifier(runtime, spec).verify(sample if deep else 0) for spec in topics]
    checks = [check for result in results for check in result.checks]
    failed = sum(not check.passed for check in checks)
    if as_json:
        output.data([_as_dict(result) for result in results])
    else:
        for result in results:
            _print(result)
        output.line(f"verify: {len(checks) - failed} passed, {failed} failed")
    raise typer.Exit(output.FINDINGS if failed else output.FINE)


def _print(result: Any) -> None:
    output.line(f"{result.topic}: {result.waiting} rows of RAW are waiting")
    if result.waiting and not result.checks:
        output.talk(f"  next: lean-ops run {result.topic}, for nothing of it is processed yet")
    if result.days:
        output.table(SHOWN, [[day[column] for column in SHOWN] for day in result.days])
    for check in result.checks:
        output.line(f"{'ok  ' if check.passed else 'FAIL'}  {check.statement}")
        if check.detail:
            output.line(f"      {check.detail}")


def _as_dict(result: Any) -> dict[str, Any]:
    # Fingerprints exceed what JSON numbers can hold everywhere: they stay text.
    days = [
        {name: value if isinstance(value, int) else str(value) for name, value in day.items()}
        for day in result.days
    ]
    checks = [vars(check) for check in result.checks]
    return {"topic": result.topic, "waiting": result.waiting, "days": days, "checks": checks}
