"""`lean-ops topics`: list, validate, new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.findings import Finding
    from lean_ops.repository import Repository
    from lean_ops.topics import TopicSpec

app = typer.Typer(help="The topics of this repository.", no_args_is_help=True)


@app.command("list")
def list_topics(root: options.Root = None, as_json: options.Json = False) -> None:
    """Show every topic and the tables it has."""
    from lean_ops.naming import curated_table, raw_table, standardized_table
    from lean_ops.repository import load_topics

    repository = options.repository(root)
    topics = load_topics(repository).checked()
    if not topics:
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
        for spec in topics.values()
    ]
    if as_json:
        output.data(rows)
    elif rows:
        shown = ("topic", "owner", "every", "contract", "raw")
        output.table(shown, [[row[column] for column in shown] for row in rows])


@app.command()
def validate(root: options.Root = None, as_json: options.Json = False) -> None:
    """Check every topic, contract and environment file; name every fault of every file at once."""
    from lean_ops.repository import load_topics

    repository = options.repository(root)
    loaded = load_topics(repository)
    findings = sorted((*loaded.findings, *_contract_findings(repository, loaded.topics),
                       *_environment_findings(repository)))  # fmt: skip
    if as_json:
        output.data({"topics": len(loaded.topics), "findings": [finding.as_dict() for finding in findings]})
    else:
        for finding in findings:
            output.line(str(finding))
    fine = len(loaded.topics)
    output.talk(f"{fine} topic{'s' * (fine != 1)} fine, {len(findings)} finding{'s' * (len(findings) != 1)}")
    raise typer.Exit(output.FINDINGS if findings else output.FINE)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The topic's name: lower case, digits, underscores.")],
    owner: Annotated[str, typer.Option(help="The team that answers for it.")] = "platform",
    description: Annotated[str, typer.Option(help="What its messages are.")] = "Say what its messages are.",
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Write a valid topic file and a contract stub: onboarding is two edits."""
    from lean_ops.onboarding import new_topic

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


def _contract_findings(repository: Repository, topics: dict[str, TopicSpec]) -> list[Finding]:
    from lean_ops.contract_file import read_file

    folder = repository.root / "schemas"
    findings: list[Finding] = []
    for path in sorted(folder.glob("*/schema.json")) if folder.is_dir() else []:
        findings.extend(read_file(repository, path, topics.get(path.parent.name)).findings)
    return findings


def _environment_findings(repository: Repository) -> list[Finding]:
    from lean_ops.errors import ConfigError
    from lean_ops.repository import load_environment

    findings: list[Finding] = []
    for path in sorted(repository.environments_folder.glob("*.yaml")):
        try:
            load_environment(repository, path.stem)
        except ConfigError as error:
            findings.extend(error.findings)
    return findings
