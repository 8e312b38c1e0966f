"""`lean-ops schema`: validate, diff, editor-files, and the deployment of contracts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lean_ops.cli import deployment, options, output

if TYPE_CHECKING:
    from lean_ops.config.repository import Repository
    from lean_ops.config.topics import KeysSpec
    from lean_ops.contracts.compatibility import Comparison
    from lean_ops.contracts.spec import ContractSpec

app = typer.Typer(help="The contracts of this repository.", no_args_is_help=True)
for command in (
    deployment.plan,
    deployment.deploy,
    deployment.status,
    deployment.history,
    deployment.rollback,
):
    app.command()(command)


@app.command()
def validate(
    topic: Annotated[str | None, typer.Argument(help="One topic; all of them by default.")] = None,
    file: Annotated[Path | None, typer.Option(help="A contract file outside schemas/.")] = None,
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Check contracts; name every fault with its JSON pointer."""
    from lean_ops.config.repository import load_topic, load_topics
    from lean_ops.contracts.contract_file import read, read_file

    repository = options.repository(root)
    if file is not None:
        spec = load_topic(repository, topic) if topic else None
        results = [read(str(file), _bytes(file), spec)]
    elif topic is not None:
        spec = load_topic(repository, topic)
        contract = _existing(repository.contract_file(topic), "write one: docs/onboard-a-topic.md shows how")
        results = [read_file(repository, contract, spec)]
    else:
        topics = load_topics(repository).topics
        files = repository.contract_files()
        results = [read_file(repository, path, topics.get(path.parent.name)) for path in files]
    findings = [finding for result in results for finding in result.findings]
    fine = sum(not result.findings for result in results)
    raise typer.Exit(output.findings(findings, kind="contract", fine=fine, as_json=as_json))


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="The contract that is active.")],
    new: Annotated[Path, typer.Argument(help="The contract that is to replace it.")],
    old_topic: Annotated[
        Path | None, typer.Option(help="The topic file as it was: compares keys too.")
    ] = None,
    new_topic: Annotated[Path | None, typer.Option(help="The topic file as it is to be.")] = None,
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Compare two contracts: differences, impact, and version. Exit code 1 when the version does not admit them."""
    from lean_ops.contracts.compatibility import compare

    if (old_topic is None) != (new_topic is None):
        raise typer.BadParameter("--old-topic and --new-topic come together")
    repository = options.repository(root) if root else None
    keys = (_keys(old_topic), _keys(new_topic)) if old_topic and new_topic else None
    comparison = compare(_contract(old, repository), _contract(new, repository), keys=keys)
    if as_json:
        output.data(
            {
                "old_version": comparison.old_version,
                "new_version": comparison.new_version,
                "impact": comparison.impact.value,
                "allowed": comparison.allowed,
                "version_fault": comparison.version_fault,
                "differences": [difference.as_dict() for difference in comparison.differences],
            }
        )
    else:
        _print(comparison)
    raise typer.Exit(output.FINE if comparison.allowed else output.FINDINGS)


@app.command("editor-files")
def editor_files(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 when a file is outdated.")
    ] = False,
    root: options.Root = None,
    as_json: options.Json = False,
) -> None:
    """Write the JSON Schemas by which editors check files."""
    from lean_ops.config import editor_schemas

    repository = options.repository(root)
    changed = (editor_schemas.outdated if check else editor_schemas.write)(repository.root)
    if as_json:
        output.data({"outdated" if check else "written": changed})
    else:
        for file in changed:
            output.line(file)
    output.talk(f"{len(changed)} {'outdated' if check else 'written'}")
    raise typer.Exit(output.FINDINGS if check and changed else output.FINE)


def _print(comparison: Comparison) -> None:
    marks = {"safe": "+", "warning": "~", "breaking": "!"}
    output.line(f"{comparison.old_version} → {comparison.new_version}: {comparison.impact.value}")
    for difference in comparison.differences:
        what = f"{difference.column or 'table'}: {difference.change}: {difference.detail}"
        output.line(f"  {marks[difference.impact]} {difference.impact:<8}  {what}")
        if difference.rebuild:
            output.line(f"{'':13} implies: {difference.rebuild}")
    if not comparison.differences:
        output.line("  no differences")
    if comparison.version_fault:
        output.line(f"refused: {comparison.version_fault}")


def _keys(path: Path) -> KeysSpec:
    from lean_ops.config.reviewed_file import read, validate
    from lean_ops.config.topics import KeysSpec
    from lean_ops.errors import ConfigError

    parsed = read(path.absolute().parent, _existing(path.absolute(), next_step="name a topic file"))
    if parsed.document is None:
        raise ConfigError(parsed.findings)
    loaded = validate(KeysSpec, parsed.document, parsed.document.data.get("keys") or {})
    if loaded.spec is None:
        raise ConfigError(loaded.findings)
    return loaded.spec


def _contract(path: Path, repository: Repository | None) -> ContractSpec:
    from lean_ops.contracts.contract_file import read

    target = path if path.is_absolute() or repository is None else repository.root / path
    return read(str(path), _bytes(target)).checked()


def _existing(path: Path, next_step: str) -> Path:
    from lean_ops.errors import NotFoundError

    if not path.is_file():
        raise NotFoundError(f"there is no file {path}", next_step=next_step)
    return path


def _bytes(path: Path) -> bytes:
    from lean_ops.contracts.contract_file import MAX_BYTES

    with _existing(path, "name a contract file").open("rb") as stream:
        return stream.read(MAX_BYTES + 1)
