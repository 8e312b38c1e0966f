"""`lean-ops topics`: list, validate, new, onboard, discover, pause, resume."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from lean_ops.aws.registry import Registry
    from lean_ops.config.repository import Repository

Topic = Annotated[str, typer.Argument(help="The topic.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the next person reads it.")]

app = typer.Typer(help="The topics of this repository.", no_args_is_help=True)

_LISTED = ("topic", "owner", "every", "contract", "raw")


@app.command("list")
def list_topics(root: options.Root = None, as_json: options.Json = False) -> None:
    """Show every topic and the tables it has. Faulty ones are named apart, and make the command fail."""
    from lean_ops.config.repository import load_topics
    from lean_ops.naming import curated_table, raw_table, standardized_table

    repository = options.repository(root)
    loaded = load_topics(repository)
    if not loaded.topics and not loaded.findings:
        output.talk("no topics yet\n  next: lean-ops topics new NAME")
    rows: list[dict[str, object]] = [
        {
            "topic": spec.topic,
            "owner": spec.owner,
            "every": f"{spec.schedule.every_minutes} min" if spec.schedule.enabled else "off",
            "contract": "yes" if repository.contract_file(spec.topic).is_file() else "no",
            "raw": ".".join(raw_table(spec.topic)),
            "standardized": ".".join(standardized_table(spec.topic)),
            "curated": ".".join(curated_table(spec.topic)),
        }
        for spec in loaded.topics.values()
    ]
    shown = rows if as_json else [{key: row[key] for key in _LISTED} for row in rows]
    output.records(shown, as_json=as_json)
    for finding in loaded.findings:
        output.talk(str(finding))
    raise typer.Exit(output.FINDINGS if loaded.findings else output.FINE)


@app.command()
def validate(root: options.Root = None, as_json: options.Json = False) -> None:
    """Check every reviewed file; name every fault at once. Topics, contracts and environments are reviewed files."""
    from lean_ops.config.review import review

    result = review(options.repository(root))
    fine = len(result.topics)
    raise typer.Exit(output.findings(result.findings, kind="topic", fine=fine, as_json=as_json))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The topic's name: lower case, digits, underscores.")],
    owner: Annotated[str, typer.Option(help="The team that answers for it.")] = "platform",
    description: Annotated[str, typer.Option(help="What its messages are.")] = "Say what its messages are.",
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Write a topic file and a contract stub, for two edits."""
    from lean_ops.config.onboarding import new_topic

    repository = options.repository(root)
    files = [
        path.relative_to(repository.root).as_posix()
        for path in new_topic(repository, name, owner=owner, description=description)
    ]
    if as_json:
        output.data({"topic": name, "files": files})
    else:
        for file in files:
            output.line(file)
    output.talk("next: edit both files, then lean-ops topics validate")


@app.command()
def onboard(
    topic: Annotated[str | None, typer.Argument(help="One topic; all of them by default.")] = None,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Create RAW tables, and declare topics in the registry. Their contracts may come later."""
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.onboarding import onboard as onboard_topic
    from lean_ops.config.repository import load_topics

    specs = load_topics(options.repository(root), only=topic).checked()
    runtime, registry = options.runtime(root, env), _registry(root, env)
    catalog = open_catalog(runtime.environment, runtime.home)
    for spec in specs.values():
        onboard_topic(catalog, registry, spec, _now())
    entries = [entry for entry in registry.all() if entry.topic in specs]
    rows = [{"topic": entry.topic, "status": entry.status.value, "open": entry.open} for entry in entries]
    output.records(rows, as_json=as_json)


@app.command()
def discover(
    *,
    propose: Annotated[
        bool, typer.Option("--propose", help="Write the files that topics lack, guessed from RAW.")
    ] = False,
    sample: Annotated[int, typer.Option(min=1, help="Records to guess from.")] = 1000,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Show the topics of the source, and which are onboarded."""
    from lean_ops.aws import clients
    from lean_ops.aws.catalog import open_catalog
    from lean_ops.aws.discovery import seen
    from lean_ops.aws.outbox import Outbox

    runtime, registry = options.runtime(root, env), _registry(root, env)
    onboarded = [entry.topic for entry in registry.all()]
    catalog = open_catalog(runtime.environment, runtime.home)
    found = seen(catalog, Outbox(clients.client(runtime, "dynamodb"), runtime.names), onboarded)
    if not propose:
        none = f"nobody has listed the source: python -m bridge.discover --env {env} --project PROJECT"
        output.records([each.as_dict() for each in found], as_json=as_json, none=none)
        return
    repository = options.repository(root)
    names = sorted({*onboarded, *(each.topic for each in found)})
    files = [file for name in names for file in _proposed(repository, catalog, name, sample)]
    output.records([{"file": file} for file in files], as_json=as_json)
    output.talk("next: review them, then lean-ops topics validate" if files else "no topic lacks a file")


def _proposed(repository: Repository, catalog: Catalog, topic: str, count: int) -> list[str]:
    """The files that were written for a topic; none for a name that cannot be one."""
    from lean_ops.aws.raw_tables import sample
    from lean_ops.contracts.inference import guess
    from lean_ops.contracts.proposal import propose
    from lean_ops.naming import topic_name_fault

    if topic_name_fault(topic) is not None:
        output.talk(f"{topic}: no legal topic name, propose one by hand")
        return []
    written = propose(repository, topic, guess(topic, sample(catalog, topic, count)))
    return [path.relative_to(repository.root).as_posix() for path in written]


@app.command()
def pause(
    topic: Topic,
    reason: Reason,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Close a topic's gate. What runs finishes, nothing new begins, messages wait in RAW."""
    _registry(root, env).pause(topic, reason, options.person(), _now())
    output.records([{"topic": topic, "maintenance": True, "reason": reason}], as_json=as_json)


@app.command()
def resume(
    topic: Topic,
    reason: Reason,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """End a pause."""
    _registry(root, env).resume(topic, reason, options.person(), _now())
    output.records([{"topic": topic, "maintenance": False, "reason": reason}], as_json=as_json)


def _registry(root: Path | None, env: str) -> Registry:
    from lean_ops.aws import clients
    from lean_ops.aws.registry import Registry

    runtime = options.runtime(root, env)
    return Registry(clients.client(runtime, "dynamodb"), runtime.names)


def _now() -> datetime:
    return datetime.now(UTC)
