"""Reads one reviewed YAML file into its model: all its faults at once, each with the line it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from lean_ops.config import strict_yaml
from lean_ops.config.findings import Finding, shown
from lean_ops.config.specs import Spec, complaints, merged
from lean_ops.config.strict_yaml import Document, Location, Parsed

Model = TypeVar("Model", bound=Spec)


@dataclass(frozen=True)
class Loaded(Generic[Model]):
    """The spec when the file is sound, and the findings when it is not."""

    spec: Model | None
    findings: tuple[Finding, ...]


def load(
    model: type[Model], root: Path, path: Path, *, name_key: str, defaults: Mapping[str, Any]
) -> Loaded[Model]:
    """The file laid over the defaults. Its own name must be the value of `name_key`."""
    parsed = read(root, path)
    findings = list(parsed.findings)
    if path.suffix != ".yaml":
        file = path.relative_to(root).as_posix()
        findings.append(Finding(file, 0, "", f"the ending {path.suffix}", "a file that ends in .yaml"))
    if parsed.document is None:
        return Loaded(None, tuple(findings))
    checked = validate(model, parsed.document, merged(defaults, parsed.document.data))
    findings.extend(checked.findings)
    name = parsed.document.data.get(name_key)
    if isinstance(name, str) and name != path.stem:
        findings.append(_misnamed(parsed.document, name_key, name, path.stem))
    return Loaded(None if findings else checked.spec, tuple(findings))


def read(root: Path, path: Path) -> Parsed:
    """The file as far as it could be read."""
    file = path.relative_to(root).as_posix()
    found = content(file, path, strict_yaml.MAX_BYTES)
    return Parsed(None, (found,)) if isinstance(found, Finding) else strict_yaml.parse(file, found)


def content(file: str, path: Path, limit: int) -> bytes | Finding:
    """The file's bytes, or why there are none. One more than the limit tells that a file is too large."""
    if not path.is_file():
        # A pipe would wait for ever, a dangling link would end the command with a traceback.
        return Finding(file, 0, "", "something that is not a file", "a file")
    try:
        with path.open("rb") as stream:
            return stream.read(limit + 1)
    except OSError as error:
        return Finding(file, 0, "", f"a file that cannot be read ({error.strerror})", "a readable file")


def validate(model: type[Model], document: Document, data: Mapping[str, Any]) -> Loaded[Model]:
    """The model's verdict on the data; lines come from the document."""
    try:
        return Loaded(model.model_validate(data), ())
    except ValidationError as error:
        return Loaded(
            None,
            tuple(
                Finding(
                    document.file,
                    document.line(complaint.location),
                    _dotted(complaint.location),
                    complaint.found,
                    complaint.expected,
                    complaint.nearest,
                )
                for complaint in complaints(model, error)
            ),
        )


def _misnamed(document: Document, key: str, found: str, stem: str) -> Finding:
    line = document.line((key,))
    return Finding(document.file, line, key, shown(found), f"{stem!r}, the file's own name")


def _dotted(location: Location) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
