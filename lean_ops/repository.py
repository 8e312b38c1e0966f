"""Reads the reviewed data of a repository (topics, environments): all faults of all files at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from lean_ops import strict_yaml
from lean_ops.environments import EnvironmentSpec
from lean_ops.errors import ConfigError, NotFoundError
from lean_ops.findings import Finding, nearest, shown
from lean_ops.specs import Complaint, Spec, complaints, merged
from lean_ops.strict_yaml import Document, Location
from lean_ops.topics import TopicSpec

DEFAULTS_FILE = "_defaults.yaml"
_REQUIRED = ("topic", "owner", "description")

Model = TypeVar("Model", bound=Spec)


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

    def topic_files(self) -> list[Path]:
        """Every file that should hold a topic, sorted; a `.yml` counts, so that it is refused aloud."""
        files = [path for path in self.topics_folder.iterdir() if path.suffix.lower() in (".yaml", ".yml")]
        return sorted(path for path in files if path.name != DEFAULTS_FILE)


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
    findings: list[Finding] = []
    defaults = _load_defaults(repository, findings)
    topics: dict[str, TopicSpec] = {}
    for path in repository.topic_files() if only is None else [_topic_file(repository, only)]:
        spec = _load_topic(repository, path, defaults, findings)
        if spec is not None:
            topics[spec.topic] = spec
    return LoadedTopics(topics, tuple(sorted(findings)))


def load_topic(repository: Repository, topic: str) -> TopicSpec:
    """One topic, or all its findings as one error."""
    return load_topics(repository, only=topic).checked()[topic]


def load_environment(repository: Repository, name: str) -> EnvironmentSpec:
    """One environment, or all its findings as one error."""
    path = repository.environments_folder / f"{name}.yaml"
    if not path.is_file():
        known = sorted(file.stem for file in repository.environments_folder.glob("*.yaml"))
        close = nearest(name, known)
        raise NotFoundError(
            f"no environment {name!r}: there are {', '.join(known)}"
            + (f"; did you mean {close!r}?" if close else ""),
            next_step=f"add environments/{name}.yaml, or name another with --env",
        )
    findings: list[Finding] = []
    document = _read(repository, path, findings)
    spec = _validate(EnvironmentSpec, document, {}, findings) if document else None
    if spec is not None and spec.name != path.stem:
        findings.append(_misnamed(document, "name", spec.name, path.stem))  # type: ignore[arg-type]
    if findings or spec is None:
        raise ConfigError(sorted(findings))
    return spec


def _topic_file(repository: Repository, topic: str) -> Path:
    path = repository.topics_folder / f"{topic}.yaml"
    if path.is_file():
        return path
    known = [file.stem for file in repository.topic_files()]
    close = nearest(topic, known)
    raise NotFoundError(
        f"no topic {topic!r}: topics/{topic}.yaml does not exist"
        + (f"; did you mean {close!r}?" if close else ""),
        next_step=f"lean-ops topics list, or: lean-ops topics new {topic}",
        topic=topic,
    )


def _load_defaults(repository: Repository, findings: list[Finding]) -> dict[str, Any]:
    path = repository.topics_folder / DEFAULTS_FILE
    document = _read(repository, path, findings) if path.is_file() else None
    if document is None:
        return {}
    own = [key for key in _REQUIRED if key in document.data]
    findings.extend(
        Finding(document.file, document.line((key,)), key, "a key of one topic", "only what all topics share")
        for key in own
    )
    shared = {key: value for key, value in document.data.items() if key not in own}
    stand_ins = {"topic": "defaults", "owner": "defaults", "description": "defaults"}
    before = len(findings)
    _validate(TopicSpec, document, stand_ins, findings, data=merged(stand_ins, shared))
    return shared if len(findings) == before else {}


def _load_topic(
    repository: Repository, path: Path, defaults: Mapping[str, Any], findings: list[Finding]
) -> TopicSpec | None:
    before = len(findings)
    document = _read(repository, path, findings)
    if document is None:
        return None
    if path.suffix != ".yaml":
        findings.append(
            Finding(document.file, 0, "", f"the ending {path.suffix}", "a file that ends in .yaml")
        )
    spec = _validate(TopicSpec, document, defaults, findings)
    name = document.data.get("topic")
    if isinstance(name, str) and name != path.stem:
        findings.append(_misnamed(document, "topic", name, path.stem))
    return spec if len(findings) == before else None


def _read(repository: Repository, path: Path, findings: list[Finding]) -> Document | None:
    file = path.relative_to(repository.root).as_posix()
    # One byte more than allowed is enough to know that a file is too large, however large it is.
    with path.open("rb") as stream:
        parsed = strict_yaml.parse(file, stream.read(strict_yaml.MAX_BYTES + 1))
    findings.extend(parsed.findings)
    return parsed.document


def _validate(
    model: type[Model],
    document: Document,
    defaults: Mapping[str, Any],
    findings: list[Finding],
    data: dict[str, Any] | None = None,
) -> Model | None:
    try:
        return model.model_validate(data if data is not None else merged(defaults, document.data))
    except ValidationError as error:
        findings.extend(
            _finding(document, complaint)
            for complaint in complaints(model, error)
            if document.has(complaint.location) or not _has(defaults, complaint.location)
        )
        return None


def _finding(document: Document, complaint: Complaint) -> Finding:
    return Finding(
        document.file,
        document.line(complaint.location),
        _dotted(complaint.location),
        complaint.found,
        complaint.expected,
        complaint.nearest,
    )


def _misnamed(document: Document, key: str, found: str, stem: str) -> Finding:
    return Finding(document.file, document.line((key,)), key, shown(found), f"{stem!r}, the file's own name")


def _has(data: Mapping[str, Any], location: Location) -> bool:
    value: Any = data
    for step in location:
        if not isinstance(value, Mapping) or step not in value:
            return False
        value = value[step]
    return True


def _dotted(location: Location) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
