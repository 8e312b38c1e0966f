"""`lean-ops schema plan, deploy, status, history, rollback`: contracts on their way into force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from pathlib import Path

    from lean_ops.aws.handing_in import Desk, HandedIn
    from lean_ops.contracts.deployment_result import DeploymentResult
    from lean_ops.contracts.effect import ContractEffect
    from lean_ops.runtime import Runtime

Topic = Annotated[str, typer.Argument(help="The topic.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is in force or refused.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait at most.")]
_STATUS = ("topic", "status", "version", "open", "maintenance", "error", "updated_at")


def plan(
    topic: Topic,
    *,
    days: Annotated[int, typer.Option(min=0, help="Days of RAW to try it on; 0 starts no Spark.")] = 7,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Say what deploying a contract would do; change nothing. Of stored data, too."""
    from lean_ops.contracts import contract_file

    content = _content(root, topic)
    result = _preview(root, env, topic, content)
    if days and contract_file.read("", content).contract is not None:
        effect = _effect(root, env, topic, content, days)
        result = result.model_copy(update={"effect": effect})
    if as_json:
        output.data(result.model_dump(mode="json"))
    else:
        _print(result, "would be ")
    raise typer.Exit(output.FINDINGS if result.outcome == "rejected" else output.FINE)


def deploy(
    topics: Annotated[list[str] | None, typer.Argument(help="The topics.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every topic of the repository.")] = False,
    wait: Wait = False,
    timeout: Timeout = 300,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Hand in contracts: each comes into force, or is refused.

    Killed or lost on the way, a deployment is finished by handing the contract in again.
    """
    from lean_ops.config.repository import load_topics

    named = list(load_topics(options.repository(root)).checked()) if every else topics or []
    if not named:
        raise typer.BadParameter("name a topic, or --all")
    desk = _desk(options.runtime(root, env))
    expected = {topic: _preview(root, env, topic, _content(root, topic)) for topic in named}
    files = [desk.hand_in(topic, _content(root, topic), options.person()) for topic in named]
    _finish(desk, files, expected, timeout=timeout if wait else None, as_json=as_json)


def rollback(
    topic: Topic,
    to: Annotated[str, typer.Option("--to", help="The version, one of the archive.")],
    *,
    wait: Wait = False,
    timeout: Timeout = 300,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Bring an earlier contract back into force. Columns that came since stay, and are left empty."""
    desk = _desk(options.runtime(root, env))
    content = desk.archived(topic, to)
    expected = {topic: _preview(root, env, topic, content, is_rollback=True)}
    file = desk.hand_in(topic, content, options.person(), is_rollback=True)
    _finish(desk, [file], expected, timeout=timeout if wait else None, as_json=as_json)


def status(
    topic: Annotated[str | None, typer.Argument(help="One topic; all of them by default.")] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Show the contract in force, the gate, and what was refused."""
    from lean_ops.aws.registry import undeclared

    desk = _desk(options.runtime(root, env))
    entries = [entry for entry in desk.registry.all() if topic in (None, entry.topic)]
    if topic is not None and not entries:
        raise undeclared(topic)
    rows = [{name: getattr(entry, name) for name in _STATUS} for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        row["maintenance"] = entry.maintenance_reason if entry.maintenance else ""
        row["status"] = entry.status.value
        if not as_json:  # short enough for a line
            row["updated_at"] = f"{entry.updated_at:%Y-%m-%d %H:%M:%SZ}"
    output.records(rows, as_json=as_json)
    if topic is None:
        return
    if desk.folder(topic).read("pending") is not None:
        output.talk("a file waits in pending/")
    for finding in (desk.folder(topic).failure() or {}).get("findings", ()):
        output.talk(_refusal(finding))


def history(
    topic: Topic, root: options.Root = None, env: options.Env = "local", as_json: options.Json = False
) -> None:
    """Show the contracts that came into force, and by whom. Each with its difference from the one before."""
    from lean_ops.aws import clients
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.outbox import Outbox
    from lean_ops.aws.schema_history import versions

    runtime = options.runtime(root, env)
    outbox = Outbox(clients.client(runtime, "dynamodb"), runtime.names)
    rows = versions(open_catalog(runtime.environment, runtime.home), outbox, topic)
    output.records(rows if as_json else [_short(row) for row in rows], as_json=as_json)
    if not rows:
        output.talk(f"no contract of {topic} has come into force")


def _finish(
    desk: Desk,
    files: list[HandedIn],
    expected: dict[str, DeploymentResult],
    *,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Tell what became of files that were handed in, or that they were."""
    if timeout is None:
        output.records([{"topic": file.topic, "sha256": file.sha256} for file in files], as_json=as_json)
        output.talk("handed in; next: lean-ops schema status")
        return
    results = [_outcome(desk, file, expected[file.topic], timeout) for file in files]
    if as_json:
        output.data([result.model_dump(mode="json") for result in results])
    else:
        for result in results:
            _print(result)
    fine = all(result.outcome in ("activated", "unchanged") for result in results)
    raise typer.Exit(output.FINE if fine else output.FINDINGS)


def _outcome(desk: Desk, file: HandedIn, expected: DeploymentResult, timeout: float) -> DeploymentResult:
    outcome = desk.await_outcome(file, timeout)
    entry = desk.registry.load(file.topic)
    told: dict[str, Any] = {"outcome": outcome, "version": entry.version if entry else None}
    if outcome == "rejected":
        failure = desk.folder(file.topic).failure() or {}
        told |= {"findings": tuple(failure["findings"]), "needs": tuple(failure["needs"]), "implies": ()}
    elif outcome == "nothing":
        output.talk(f"{file.topic}: a later file took its place")
    elif expected.outcome == "unchanged":
        told["outcome"] = "unchanged"
    return expected.model_copy(update=told)


def _preview(
    root: Path | None, env: str, topic: str, content: bytes, *, is_rollback: bool = False
) -> DeploymentResult:
    from lean_ops.aws import schema_ports
    from lean_ops.aws.deployments import preview
    from lean_ops.config.repository import load_topic
    from lean_ops.contracts.deployment_result import described

    ports = schema_ports.ports(options.runtime(root, env))
    entry = ports.registry.load(topic)
    decided = preview(ports, load_topic(options.repository(root), topic), content, is_rollback=is_rollback)
    return described(topic, entry.version if entry else None, decided)


def _effect(root: Path | None, env: str, topic: str, content: bytes, days: int) -> ContractEffect:
    """What stored records would say to it; Spark is started only when there are any."""
    from datetime import UTC, datetime, timedelta

    from lean_ops.aws import clients, stored_records
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.batch import spark_process
    from lean_ops.config.repository import load_topic
    from lean_ops.contracts.effect import ContractEffect, EffectArguments

    runtime = options.runtime(root, env)
    since = datetime.now(UTC) - timedelta(days=days)
    if not stored_records.any_since(open_catalog(runtime.environment, runtime.home), topic, since.date()):
        return ContractEffect()
    active = _desk(runtime).folder(topic).read("active")
    arguments = EffectArguments(
        topic=load_topic(options.repository(root), topic),
        contract=content.decode(),
        active=active.content.decode() if active is not None else None,
        since=since,
    )
    output.talk(f"{topic}: asking stored records, starting Spark")
    variables = {**runtime.variables(), **clients.variables(runtime)}
    text = spark_process.answer("contract_effect", arguments.model_dump_json(), variables, lambda _: None)
    return ContractEffect.model_validate_json(text)


def _desk(runtime: Runtime) -> Desk:
    from lean_ops.aws import schema_ports
    from lean_ops.aws.clients import client
    from lean_ops.aws.handing_in import Desk
    from lean_ops.aws.registry import Registry

    dynamodb = client(runtime, "dynamodb", schema_ports.RETRYING)
    return Desk(
        client(runtime, "s3", schema_ports.RETRYING), Registry(dynamodb, runtime.names), runtime.names
    )


def _content(root: Path | None, topic: str) -> bytes:
    from lean_ops.contracts.contract_file import MAX_BYTES
    from lean_ops.errors import NotFoundError

    path = options.repository(root).contract_file(topic)
    if not path.is_file():
        raise NotFoundError(
            f"topic {topic!r} has no contract: there is no schemas/{topic}/schema.json",
            next_step="write one: docs/onboard-a-topic.md shows how",
            topic=topic,
        )
    with path.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _print(result: DeploymentResult, would_be: str = "") -> None:
    marks = {"safe": "+", "warning": "~", "breaking": "!"}
    kind = f" ({result.classification})" if result.classification else ""
    output.line(f"{result.topic}: {would_be}{result.outcome}{kind}")
    for each in result.differences:
        output.line(
            f"  {marks[each['impact']]} {each['impact']:<8}  {each['column'] or 'table'}: "
            f"{each['change']}: {each['detail']}"
        )
    for finding in result.findings:
        output.line(f"  {_refusal(finding)}")
    for need in result.needs:
        output.line(f"  it would need: {need}")
    for implied in result.implies:
        output.line(f"  implies: {implied}")
    if result.effect is not None:
        _print_effect(result.effect)


def _refusal(finding: dict[str, Any]) -> str:
    """A finding in one line. A file under review never steers a terminal."""
    from lean_ops.config.findings import printable

    hint = f" Did you mean {finding['nearest']!r}?" if finding["nearest"] else ""
    place = finding["key"] or "the file"
    return printable(f"refused: {place}: found {finding['found']}; expected {finding['expected']}.{hint}")


def _print_effect(effect: ContractEffect) -> None:
    output.line(
        f"  of {effect.records} stored records, {effect.newly_failing} would newly fail and {effect.healed} heal; "
        f"of {effect.open_errors} open errors, {effect.open_errors_healed} would heal"
    )
    for broken in effect.broken_rules:
        output.line(f"    {broken.records} {broken.code} {broken.column} ({broken.rule})")
    if effect.unreadable:
        output.line(f"    {effect.unreadable} are no JSON object, under any contract")


def _short(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: row[name]
        for name in ("changed_ts", "version", "previous_version", "classification", "changed_by")
    }
