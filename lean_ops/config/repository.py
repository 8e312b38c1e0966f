"""The reviewed data of a repository (topics, environments): all faults of all files at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lean_ops.config import reviewed_file
from lean_ops.config.environments import EnvironmentSpec
from lean_ops.config.findings import Finding, nearest
from lean_ops.config.reviewed_file import Loaded
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import ConfigError, NotFoundError

DEFAULTS_FILE = "_defaults.yaml"
# The keys that make a topic, which no two topics share; a checked `_defaults.yaml` borrows these instead.
_STAND_INS = {"topic": "defaults", "owner": "defaults", "description": "defaults"}


@dataclass(frozen=True)
class Repository:
    """A folder with `topics/`, `schemas/` and `environments/`."""

    root: Path

    @property
    def topics_folder(self) -> Path:
        return self.root / "topics"

    @property
    def environments_folder(self) -> Path:
        return self.root / "environments"

    def contract_file(self, topic: str) -> Path:
        return self.root / "schemas" / topic / "schema.json"

    def contract_files(self) -> list[Path]:
        return sorted(self.root.glob("schemas/*/schema.json"))

    def topic_files(self) -> list[Path]:
        return [path for path in _yaml_files(self.topics_folder) if path.name != DEFAULTS_FILE]

    def environment_files(self) -> list[Path]:
        return _yaml_files(self.environments_folder)


@dataclass(frozen=True)
class LoadedTopics:
    """The topics that are fine, and the findings of those that are not."""

    topics: dict[str, TopicSpec]
    findings: tuple[Finding, ...]

    def checked(self) -> dict[str, TopicSpec]:
        """The topics, or every finding as one error."""
        if self.findings:
            raise ConfigError(self.findings)
        return self.topics


def find_root(start: Path) -> Path:
    """The repository that a folder belongs to, found upward."""
    for folder in (start, *start.parents):
        if (folder / "topics").is_dir() and (folder / "environments").is_dir():
            return folder
    raise NotFoundError(
        f"no lean-ops repository at or above {start}: no folder with topics/ and environments/",
        next_step="change into the repository, or name it with --root DIR",
    )


def load_topics(repository: Repository, only: str | None = None) -> LoadedTopics:
    """Load every topic (or one): each file stands alone, so that one bad file never hides another."""
    defaults, findings = _load_defaults(repository)
    if only is None:
        files = repository.topic_files()
        findings += _folders(repository)
    else:
        files = [_topic_file(repository, only)]
    topics: dict[str, TopicSpec] = {}
    for path in files:
        loaded = reviewed_file.load(TopicSpec, repository.root, path, name_key="topic", defaults=defaults)
        findings += loaded.findings
        if loaded.spec is not None:
            topics[loaded.spec.topic] = loaded.spec
    return LoadedTopics(topics, tuple(sorted(findings)))


def load_topic(repository: Repository, topic: str) -> TopicSpec:
    """One topic, or all its findings as one error."""
    return load_topics(repository, only=topic).checked()[topic]


def load_environment(repository: Repository, name: str) -> EnvironmentSpec:
    """One environment, or all its findings as one error."""
    path = _file_named(repository.environments_folder, name)
    if path is None:
        known = [file.stem for file in repository.environment_files()]
        raise NotFoundError(
            f"no environment {name!r}: there {_are(known)}{_hint(name, known)}",
            next_step=f"add environments/{name}.yaml, or name another with --env",
        )
    loaded = _load_environment(repository, path)
    if loaded.spec is None:
        raise ConfigError(sorted(loaded.findings))
    return loaded.spec


def environment_findings(repository: Repository) -> list[Finding]:
    """Every fault of every environment file."""
    return [
        finding
        for path in repository.environment_files()
        for finding in _load_environment(repository, path).findings
    ]


def _load_environment(repository: Repository, path: Path) -> Loaded[EnvironmentSpec]:
    return reviewed_file.load(EnvironmentSpec, repository.root, path, name_key="name", defaults={})


def _load_defaults(repository: Repository) -> tuple[dict[str, Any], list[Finding]]:
    """What all topics share: nothing at all when it is faulty, so that no topic answers for it."""
    path = repository.topics_folder / DEFAULTS_FILE
    if not path.exists():
        return {}, []
    parsed = reviewed_file.read(repository.root, path)
    document, findings = parsed.document, list(parsed.findings)
    if document is None:
        return {}, findings
    shared = {key: value for key, value in document.data.items() if key not in _STAND_INS}
    for key in _STAND_INS.keys() & document.data.keys():
        line = document.line((key,))
        findings.append(Finding(document.file, line, key, "a key of one topic", "only what all topics share"))
    findings += reviewed_file.validate(TopicSpec, document, shared | _STAND_INS).findings
    return ({} if findings else shared), findings


def _yaml_files(folder: Path) -> list[Path]:
    """Every file that should hold a spec, sorted; a `.yml` counts, so that it is refused aloud."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in (".yaml", ".yml"))


def _folders(repository: Repository) -> list[Finding]:
    """Topics filed in folders of their own would be missed without a word."""
    return [
        Finding(f"topics/{path.name}", 0, "", "a folder", "topic files directly in topics/")
        for path in repository.topics_folder.iterdir()
        if not path.suffix and not path.name.startswith(".") and path.is_dir()
    ]


def _topic_file(repository: Repository, topic: str) -> Path:
    path = _file_named(repository.topics_folder, topic)
    if path is not None:
        return path
    known = [file.stem for file in repository.topic_files()]
    raise NotFoundError(
        f"no topic {topic!r}: topics/{topic}.yaml does not exist{_hint(topic, known)}",
        next_step=f"lean-ops topics list, or: lean-ops topics new {topic}",
        topic=topic,
    )


def _file_named(folder: Path, name: str) -> Path | None:
    # A name with a slash would lead out of the folder.
    path = folder / f"{name}.yaml"
    return path if path.parent == folder and path.is_file() else None


def _hint(name: str, known: list[str]) -> str:
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""


def _are(known: list[str]) -> str:
    return f"are {', '.join(known)}" if known else "is none"
