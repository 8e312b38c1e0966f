"""Reads a contract file: strict JSON in, a contract or every fault with its JSON pointer out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lean_ops import contract_rules
from lean_ops.contracts import MAX_COLUMNS, ColumnSpec, ContractSpec
from lean_ops.errors import ConfigError
from lean_ops.findings import Finding, shown
from lean_ops.repository import Repository
from lean_ops.specs import Complaint, complaints
from lean_ops.strict_yaml import Location
from lean_ops.topics import TopicSpec

MAX_BYTES = 1024 * 1024


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


class _DuplicateKeyError(ValueError):
    pass


def read(file: str, content: bytes, topic: TopicSpec | None = None) -> ReadContract:
    """Read and check a contract; with its topic, also what the two must agree on."""
    try:
        data = _parse(content)
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 0
        return ReadContract(None, (Finding(file, line, "", str(error), "one JSON object, in UTF-8"),))
    faults = list(_complaints(data, topic))
    if faults:
        findings = sorted(
            Finding(file, 0, _pointer(fault.location), fault.found, fault.expected, fault.nearest)
            for fault in faults
        )
        return ReadContract(None, tuple(findings))
    return ReadContract(ContractSpec.model_validate_json(json.dumps(data)), ())


def read_file(repository: Repository, path: Path, topic: TopicSpec | None = None) -> ReadContract:
    """Read a contract of a repository. A folder without a topic of its name is a fault of its own."""
    file = path.relative_to(repository.root).as_posix()
    with path.open("rb") as stream:
        result = read(file, stream.read(MAX_BYTES + 1), topic)
    name = path.parent.name
    if (repository.topics_folder / f"{name}.yaml").is_file():
        return result
    orphan = Finding(file, 0, "", f"no topic {name!r}", f"topics/{name}.yaml beside it")
    return ReadContract(None, (*result.findings, orphan))


def _parse(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise ValueError(f"a file of more than {MAX_BYTES} bytes")
    try:
        # Floats stay text, so that a default such as 0.10 keeps its digits.
        data = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=str,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"a byte that is not UTF-8 at offset {error.start}") from None
    except RecursionError:
        raise ValueError("nesting beyond what can be read") from None
    if not isinstance(data, dict):
        raise ValueError(f"a JSON {type(data).__name__} at the top")  # noqa: TRY004 - a fault of the file
    return data


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(f"the key {shown(key)} twice in one object")
        result[key] = value
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")


def _complaints(data: dict[str, Any], topic: TopicSpec | None) -> Iterable[Complaint]:
    columns_raw = data.get("payload_columns")
    if isinstance(columns_raw, list) and len(columns_raw) > MAX_COLUMNS:
        yield Complaint(("payload_columns",), f"{len(columns_raw)} columns", f"at most {MAX_COLUMNS}")
        return
    try:
        ContractSpec.model_validate_json(json.dumps(data))
        faults: list[Complaint] = []
    except ValidationError as error:
        faults = complaints(ContractSpec, error)
    yield from faults
    columns, faulty = _sound_columns(columns_raw, faults)
    yield from contract_rules.column_complaints(columns, faulty)
    yield from contract_rules.contract_complaints(columns)
    if isinstance(data.get("envelope_columns"), list):
        yield from contract_rules.envelope_complaints(data["envelope_columns"])
    if topic is not None:
        yield from contract_rules.topic_complaints(columns, data.get("table_name"), topic)


def _sound_columns(
    columns: Any, faults: Iterable[Complaint]
) -> tuple[dict[int, ColumnSpec], Mapping[int, frozenset[str]]]:
    """The columns with their broken fields left out: what remains can still be checked against the rules."""
    faulty: dict[int, frozenset[str]] = {}
    for fault in faults:
        match fault.location:
            case ("payload_columns", int(index), str(field), *_):
                faulty[index] = faulty.get(index, frozenset()) | {field}
            case ("payload_columns", int(index)):
                faulty[index] = frozenset(ColumnSpec.model_fields)
    sound: dict[int, ColumnSpec] = {}
    for index, column in enumerate(columns if isinstance(columns, list) else ()):
        broken = faulty.get(index, frozenset())
        if "name" in broken or not isinstance(column, dict):
            continue
        rest = {key: value for key, value in column.items() if key not in broken}
        sound[index] = ColumnSpec.model_validate_json(json.dumps({"type": "string"} | rest))
    return sound, faulty


def _pointer(location: Location) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in location)
