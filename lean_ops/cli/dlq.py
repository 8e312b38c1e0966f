"""`lean-ops dlq` and `lean-ops firehose`: what did not reach RAW, and its way back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lean_ops.cli import options, output, pre_raw
from lean_ops.errors import UsageError

if TYPE_CHECKING:
    from lean_ops.aws.error_tables import ErrorTable
    from lean_ops.aws.recovery import Hatch, ReplayResult
    from lean_ops.ingestion.attempts import ReplayPlan
    from lean_ops.runtime import Runtime

Kind = Literal["dlq", "firehose"]

Topic = Annotated[str, typer.Option("--topic", help="The topic.")]
AnyTopic = Annotated[str | None, typer.Option("--topic", help="The topic; all by default.")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Detected since: 2026-11-18, 2026-11-18T08:00Z, or 90m, 24h, 7d ago."),
]
Code = Annotated[str | None, typer.Option("--code", help="Only this error code.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count, and change nothing.")]
Reason = Annotated[str, typer.Option("--reason", help="Why nobody will need them.")]
MessageIds = Annotated[
    list[str] | None,
    typer.Option("--message", help="Only this message_id; more than once for several.", show_default=False),
]


def _group(kind: Kind, text: str) -> typer.Typer:
    group = typer.Typer(help=text, no_args_is_help=True)

    @group.command("list")
    def standing(
        topic: AnyTopic = None,
        root: options.Root = None,
        env: options.Env = "local",
        as_json: options.Json = False,
    ) -> None:
        """Count records by topic, code and status. The latest attempt of each counts."""
        from collections import Counter

        standings = _errors(kind, _runtime(root, env, _named(topic))).standings(topic)
        counts = Counter((each.identity.topic, each.error_code, each.status) for each in standings)
        columns = ("topic", "code", "status", "count")
        rows = [dict(zip(columns, (*key, n), strict=True)) for key, n in sorted(counts.items())]
        output.records(rows, as_json=as_json, none=f"{kind}: no records")

    @group.command()
    def settle(
        topic: Topic, root: options.Root = None, env: options.Env = "local", as_json: options.Json = False
    ) -> None:
        """Resolve the records whose messages have reached RAW. A replay begins with it."""
        import time

        from lean_ops.aws import recovery

        resolved = recovery.settle(_errors(kind, _runtime(root, env, topic)), topic, time.time_ns() // 1000)
        output.records([{"resolved": resolved}], as_json=as_json)

    @group.command()
    def replay(
        topic: Topic,
        *,
        since: Since = None,
        code: Code = None,
        dry_run: DryRun = False,
        root: options.Root = None,
        env: options.Env = "local",
        as_json: options.Json = False,
    ) -> None:
        """Send a topic's open records again. Counts first; what is on its way or in RAW is not sent."""
        import time

        from lean_ops.aws import recovery
        from lean_ops.ingestion.moments import moment

        now = time.time()
        asked_since = None if since is None else moment(since, now)
        hatch = _hatch(kind, _runtime(root, env, topic), topic, now)
        _known(code, {each.error_code for each in hatch.errors.standings(topic)})
        result = recovery.replay(
            hatch,
            topic,
            now,
            since=asked_since,
            code=code,
            on_plan=partial(_announce, "replay"),
            dry_run=dry_run,
        )
        raise typer.Exit(_report(result, dry_run=dry_run, as_json=as_json))

    @group.command()
    def close(
        topic: Topic,
        *,
        reason: Reason,
        message: MessageIds = None,
        code: Code = None,
        since: Since = None,
        dry_run: DryRun = False,
        root: options.Root = None,
        env: options.Env = "local",
        as_json: options.Json = False,
    ) -> None:
        """Give records up for good. They stay in table and archive, with the reason. Counts first."""
        import time
        from dataclasses import asdict

        from lean_ops.aws import recovery
        from lean_ops.ingestion.moments import moment

        if not reason.strip():
            raise UsageError("an empty reason", next_step="say why: whoever reads the table will ask")
        if code is None and not message:
            raise UsageError("nothing says which records", next_step="--code CODE, or --message MESSAGE_ID")
        now = time.time()
        errors = _errors(kind, _runtime(root, env, _named(topic)))
        standings = errors.standings(topic)
        _known(code, {each.error_code for each in standings})
        _found(set(message or ()), {each.identity.message_id for each in standings})
        result = recovery.close(
            errors,
            topic,
            now,
            f"{reason.strip()} ({options.person()})",
            since=None if since is None else moment(since, now),
            code=code,
            message_ids=frozenset(message or ()),
            on_plan=partial(_announce, "close"),
            dry_run=dry_run,
        )
        if as_json:
            output.data(asdict(result) | {"dry_run": dry_run})
        elif not dry_run:
            output.line(f"{result.closed} closed, {result.resolved} found in RAW and resolved")

    return group


app = _group("dlq", "Messages that ended in a dead-letter queue.")
firehose_app = _group("firehose", "Records that Firehose could not deliver.")
app.command()(pre_raw.balance)


@firehose_app.command()
def collect(root: options.Root = None, env: options.Env = "local", as_json: options.Json = False) -> None:
    """Read the error prefix once more, for events that were missed. Nothing is added twice."""
    import time

    from lean_ops.aws import clients
    from lean_ops.aws.collector import Collector
    from lean_ops.aws.ddl import ensure_table

    runtime = options.runtime(root, env)
    errors = _errors("firehose", runtime)
    ensure_table(errors.catalog, errors.spec)
    collector = Collector(clients.client(runtime, "s3"), runtime.names.ops_bucket, errors)
    output.records([{"rows": collector.collect_all(time.time())}], as_json=as_json)


def _runtime(root: options.Root, env: str, topic: str | None) -> Runtime:
    from lean_ops.config.repository import load_topic

    if topic is not None:
        load_topic(options.repository(root), topic)
    return options.runtime(root, env)


def _named(topic: str | None) -> str | None:
    """What names no topic is looked at and closed under a name that no topic has."""
    from lean_ops.ingestion.attempts import NO_TOPIC

    return None if topic == NO_TOPIC else topic


def _errors(kind: Kind, runtime: Runtime) -> ErrorTable:
    from lean_ops.aws import error_tables
    from lean_ops.aws.catalog import open_catalog

    table = error_tables.firehose_errors if kind == "firehose" else error_tables.dlq_errors
    return table(open_catalog(runtime.environment, runtime.home))


def _hatch(kind: Kind, runtime: Runtime, topic: str, now: float) -> Hatch:
    from lean_ops.aws import ingestion, recovery

    errors = _errors(kind, runtime)
    if kind == "firehose":
        return recovery.firehose_hatch(errors, ingestion.delivery_stream(runtime))
    return recovery.dlq_hatch(errors, ingestion.queues(runtime), topic, now)


def _known(code: str | None, codes: set[str]) -> None:
    if code is not None and code not in codes:
        there = ", ".join(sorted(codes)) or "none"
        raise UsageError(f"no record has the code {code}", next_step=f"the codes of this topic: {there}")


def _announce(doing: str, plan: ReplayPlan) -> None:
    counts = ", ".join(f"{count} {code}" for code, count in plan.counts.items()) or "nothing"
    output.talk(f"to {doing}: {counts}")
    if plan.in_flight:
        output.talk(f"left alone, on their way from an earlier replay: {plan.in_flight}")


def _found(asked: set[str], known: set[str]) -> None:
    if missing := sorted(asked - known):
        raise UsageError(f"no record has the message_id {missing[0]}", next_step="lean-ops sql names them")


def _report(result: ReplayResult, *, dry_run: bool, as_json: bool) -> int:
    from dataclasses import asdict

    if as_json:
        output.data(asdict(result) | {"dry_run": dry_run})
    elif not dry_run:
        output.line(f"{result.sent} sent again, {result.resolved} found in RAW and resolved")
    for code, count in result.still_broken.items():
        output.talk(f"{count} {code} left: the processor would reject them again")
    if result.unsent:
        output.talk(f"{result.unsent} were not taken; replay them again in an hour")
    return output.FINDINGS if result.unsent else output.FINE
