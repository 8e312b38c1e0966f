"""YAML as reviewed data: the C parser, safe types only, and every key said once.

YAML allows much that a reviewed file should not hold: repeated keys (the last silently wins), aliases (a few
lines can unfold to gigabytes), tags that build objects. All are refused here with the line they stand on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import yaml

from lean_ops.config.findings import Finding, shown

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20

Location = tuple[str | int, ...]

# Stands where a refused value stood, so that nobody complains about the same place a second time.
REFUSED: Final = object()

_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,2})?")


@dataclass(frozen=True)
class Document:
    """A parsed file that still knows the line of each of its keys."""

    file: str
    data: dict[str, Any]
    root: yaml.MappingNode

    def line(self, location: Location) -> int:
        """The line of a key, or of the nearest enclosing one that is in the file."""
        node: yaml.Node = self.root
        line = 1
        for step in location:
            if isinstance(node, yaml.MappingNode):
                pair = next(((key, value) for key, value in node.value if key.value == step), None)
                if pair is None:
                    break
                line, node = pair[0].start_mark.line + 1, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line + 1
            else:
                break
        return line


@dataclass(frozen=True)
class Parsed:
    """The document as far as it could be read, and every reason why it is not as it should be."""

    document: Document | None
    findings: tuple[Finding, ...] = ()


def parse(file: str, content: bytes) -> Parsed:
    """Read one file. A file that is no YAML mapping at all gives no document."""

    def unreadable(line: int, found: str, expected: str) -> Parsed:
        return Parsed(None, (Finding(file, line, "", found, expected),))

    if len(content) > MAX_BYTES:
        return unreadable(0, f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8")
        too_deep = _first_line_too_deep(text) if _may_nest_deeply(text) else 0
        if too_deep:
            return unreadable(too_deep, f"more than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        return unreadable(0, f"a byte that is not UTF-8 at offset {error.start}", "UTF-8 text")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        return unreadable(mark.line + 1 if mark else 0, f"broken YAML ({problem})", "valid YAML")
    if root is None:
        return unreadable(1, "an empty file", "lines of key: value")
    if not isinstance(root, yaml.MappingNode) or root.tag != _MAP:
        return unreadable(root.start_mark.line + 1, "no plain mapping at the top", "lines of key: value")
    builder = _Builder(file)
    data = builder.document(root)
    return Parsed(Document(file, data, root), tuple(builder.findings))


def _may_nest_deeply(text: str) -> bool:
    # libyaml's composer recurses in C and dies with the process a few thousand levels down. A level costs a
    # bracket or half a column (a list may stand below a key without indentation), so an ordinary file is
    # known to have fewer than 500 without a second pass over its events.
    return text.count("[") + text.count("{") > 100 or max(map(len, text.splitlines()), default=0) > 200


def _first_line_too_deep(text: str) -> int:
    # Stops at the first level too many: libyaml's effort grows with the square of the open brackets.
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                return event.start_mark.line + 1 if event.start_mark else 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return 0


class _Builder:
    """Turns nodes into plain data and notes what a reviewed file may not hold: that becomes REFUSED."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._seen: set[int] = set()

    def document(self, root: yaml.MappingNode) -> dict[str, Any]:
        self._seen.add(id(root))
        return self._mapping(root, "", 1)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag not in (_STR, _BOOL) or not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, path, "a key that is not text", "a key that is text")
                continue
            key = key_node.value
            where = f"{path}.{key}" if path else key
            if key in result:
                self._refuse(key_node, where, "the key a second time", "each key once")
                continue
            if self._is_alias(key_node):
                self._refuse(value_node, where, "an alias (*name)", "the key written out: no aliases")
                continue
            result[key] = self._value(value_node, where, depth + 1, key_node)
        return result

    def _value(self, node: yaml.Node, path: str, depth: int, at: yaml.Node) -> Any:
        if self._is_alias(node):
            return self._refuse(at, path, "an alias (*name)", "the value written out: no aliases")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if depth > MAX_DEPTH:
            return self._refuse(at, path, f"more than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            return [
                self._value(item, f"{path}[{index}]", depth + 1, node)
                for index, item in enumerate(node.value)
            ]
        return self._refuse_tag(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        build = _SCALARS.get(node.tag)
        if build is None:
            return self._refuse_tag(node, path)
        try:
            return build(node.value)
        except ValueError:
            return self._refuse(node, path, shown(node.value), "a plain number, or text in quotes")

    def _is_alias(self, node: yaml.Node) -> bool:
        # An alias makes the composer hand out one node twice; refusing the second sight defuses every bomb.
        # The node knows the line of its anchor only, so a finding takes its line from beside the alias.
        seen = id(node) in self._seen
        self._seen.add(id(node))
        return seen

    def _refuse_tag(self, node: yaml.Node, path: str) -> object:
        tag = node.tag.replace(_TAG, "!!")
        return self._refuse(node, path, f"the tag {shown(tag)}", "a plain value without a tag")

    def _refuse(self, node: yaml.Node, key: str, found: str, expected: str) -> object:
        self.findings.append(Finding(self.file, node.start_mark.line + 1, key, found, expected))
        return REFUSED


def _integer(text: str) -> int:
    # YAML 1.1 reads 010 as eight, 1_0 as ten and 1:30 as ninety; whoever reviews the file does not.
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _float(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _boolean(text: str) -> bool | str:
    # YAML 1.1 also reads yes, no, on and off as booleans; a reviewer does not, so they stay text.
    return _BOOLEANS.get(text.lower(), text)


_STR, _BOOL, _MAP, _SEQ = (f"{_TAG}{name}" for name in ("str", "bool", "map", "seq"))
_SCALARS: dict[str, Callable[[str], Any]] = {
    _STR: str,
    f"{_TAG}int": _integer,
    f"{_TAG}float": _float,
    _BOOL: _boolean,
    f"{_TAG}null": lambda _: None,
    f"{_TAG}timestamp": str,
}
