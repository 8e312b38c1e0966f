"""Reads a contract file: strict JSON in, a contract or every fault with its JSON pointer out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lean_ops.config import reviewed_file
from lean_ops.config.findings import Finding, nearest, shown
from lean_ops.config.repository import Repository
from lean_ops.config.specs import Complaint, complaints
from lean_ops.config.strict_yaml import Location
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts import contract_rules
from lean_ops.contracts.spec import MAX_COLUMNS, ColumnSpec, ContractSpec, WrittenNumber
from lean_ops.errors import ConfigError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 20


@dataclass(frozen=True)
class ReadContract:
    """The contract when it is sound, and the findings when it is not."""

    contract: ContractSpec | None
    findings: tuple[Finding, ...]

    def checked(self) -> ContractSpec:
        """The contract, or every finding as one error."""
        if self.contract is None:
            raise ConfigError(self.findings)
        return self.contract


def read(file: str, content: bytes, topic: TopicSpec | None = None) -> ReadContract:
    """Read and check a contract; with its topic, also what the two must agree on."""
    try:
        data, repeated = _parse(content)
    except json.JSONDecodeError as error:
        return _unreadable(file, f"broken JSON ({error.msg}, column {error.colno})", error.lineno)
    except ValueError as error:
        return _unreadable(file, str(error))
    contract, faults = _validate(data)
    faults = [*repeated, *faults, *_rule_complaints(data, faults, topic)]
    findings = sorted(
        Finding(file, 0, _pointer(fault.location), fault.found, fault.expected, fault.nearest)
        for fault in faults
    )
    return ReadContract(None if findings else contract, tuple(findings))


def read_file(repository: Repository, path: Path, topic: TopicSpec | None = None) -> ReadContract:
    """Read a contract of a repository. A folder without a topic of its name is a fault of its own."""
    file = path.relative_to(repository.root).as_posix()
    content = reviewed_file.content(file, path, MAX_BYTES)
    result = ReadContract(None, (content,)) if isinstance(content, Finding) else read(file, content, topic)
    name = path.parent.name
    if (repository.topics_folder / f"{name}.yaml").is_file():
        return result
    close = nearest(name, [topic_file.stem for topic_file in repository.topic_files()])
    orphan = Finding(file, 0, "", f"no topic {name!r}", f"topics/{name}.yaml beside it", close)
    return ReadContract(None, (*result.findings, orphan))


def _unreadable(file: str, found: str, line: int = 0) -> ReadContract:
    return ReadContract(None, (Finding(file, line, "", found, "one JSON object, in UTF-8"),))


def _parse(content: bytes) -> tuple[dict[str, Any], list[Complaint]]:
    """The document, and the keys that stand in it twice. Raises ValueError when it is no JSON object."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    repeated: list[tuple[dict[str, Any], str]] = []

    def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                repeated.append((result, key))
            result.setdefault(key, value)
        return result

    try:
        text = content.decode("utf-8")
        data = json.loads(
            text,
            object_pairs_hook=unique,
            parse_float=WrittenNumber,
            parse_int=WrittenNumber,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"a byte that is not UTF-8 at offset {error.start}") from None
    except RecursionError:
        raise ValueError(f"more than {MAX_DEPTH} levels") from None
    if not isinstance(data, dict):
        raise ValueError("no JSON object at the top")  # noqa: TRY004 - a fault of the file
    places = {id(value): location for location, value in _containers(data)}
    if "\\ud" in text.lower():
        _refuse_half_characters(data)
    return data, [
        Complaint((*places[id(holder)], key), "the key a second time", "each key once")
        for holder, key in repeated
        if id(holder) in places
    ]


def _containers(data: Any) -> Iterator[tuple[Location, Any]]:
    """Every object and array with its place, without recursion: depth is the document's to choose."""
    pending: list[tuple[Location, Any]] = [((), data)]
    while pending:
        location, value = pending.pop()
        if len(location) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels")
        yield location, value
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        pending.extend(((*location, step), below) for step, below in steps if isinstance(below, dict | list))


def _refuse_half_characters(data: dict[str, Any]) -> None:
    # JSON can spell half of a surrogate pair; nothing that writes UTF-8 (a table, a log) can hold it.
    try:
        json.dumps(data, ensure_ascii=False, default=repr).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair (\\ud800 to \\udfff), which is no character") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")


def _validate(data: dict[str, Any]) -> tuple[ContractSpec | None, list[Complaint]]:
    try:
        return ContractSpec.model_validate(data), []
    except ValidationError as error:
        return None, complaints(ContractSpec, error)


def _rule_complaints(
    data: dict[str, Any], faults: Sequence[Complaint], topic: TopicSpec | None
) -> Iterator[Complaint]:
    raw_columns = data.get("payload_columns")
    if isinstance(raw_columns, list) and len(raw_columns) > MAX_COLUMNS:
        yield Complaint(("payload_columns",), f"{len(raw_columns)} columns", f"at most {MAX_COLUMNS}")
    columns, broken = _sound_columns(raw_columns, faults)
    yield from contract_rules.column_complaints(columns, broken)
    yield from contract_rules.name_complaints(columns)
    yield from contract_rules.path_complaints(columns, broken)
    if isinstance(data.get("envelope_columns"), list):
        yield from contract_rules.envelope_complaints(data["envelope_columns"])
    if topic is not None:
        yield from contract_rules.topic_complaints(columns, broken, topic)
        name = data.get("table_name")
        if isinstance(name, str) and name != topic.topic:
            yield Complaint(("table_name",), shown(name), f"{topic.topic!r}, the topic of this folder")


def _sound_columns(
    columns: Any, faults: Iterable[Complaint]
) -> tuple[dict[int, ColumnSpec], Mapping[int, frozenset[str]]]:
    """The columns with their broken fields left out: what remains can still be checked against the rules."""
    broken: dict[int, frozenset[str]] = {}
    for fault in faults:
        match fault.location:
            case ("payload_columns", int(index), str(field), *_):
                broken[index] = broken.get(index, frozenset()) | {field}
            case ("payload_columns", int(index)):
                broken[index] = frozenset(ColumnSpec.model_fields)
    sound: dict[int, ColumnSpec] = {}
    for index, column in enumerate(columns if isinstance(columns, list) else ()):
        fields = broken.get(index, frozenset())
        if "name" not in fields:
            rest = {key: value for key, value in column.items() if key not in fields}
            sound[index] = ColumnSpec.model_validate({"type": "string"} | rest)
    return sound, broken


def _pointer(location: Location) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)
