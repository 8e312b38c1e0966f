"""YAML as reviewed data: the C parser, safe types only, and every key said once.

YAML allows much that a reviewed file should not hold: repeated keys (the last silently wins), aliases (a few
lines can unfold to gigabytes), tags that build objects. All are refused here with the line they stand on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import yaml

from lean_ops.findings import Finding, shown

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20

Location = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False}


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

    def has(self, location: Location) -> bool:
        """Whether the key stands in this file (and not only in the defaults)."""
        value: Any = self.data
        for step in location:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False
        return True


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
        return unreadable(0, f"{len(content)} bytes", f"at most {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8")
        if _may_nest_deeply(text) and _depth(text) > MAX_DEPTH:
            return unreadable(0, f"more than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")
        root = yaml.compose(text, Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        return unreadable(0, f"a byte that is not UTF-8 at offset {error.start}", "UTF-8 text")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        return unreadable(mark.line + 1 if mark else 0, f"broken YAML ({problem})", "valid YAML")
    if not isinstance(root, yaml.MappingNode):
        return unreadable(1, "no mapping at the top" if root else "an empty file", "lines of key: value")
    builder = _Builder(file)
    data = builder.mapping(root, "", 0)
    return Parsed(Document(file, data, root), tuple(builder.findings))


def _may_nest_deeply(text: str) -> bool:
    # libyaml's composer recurses in C and dies with the process on deep nesting. Depth costs a bracket or a
    # column, so an ordinary file is known to be shallow without a second pass over its events.
    return text.count("[") + text.count("{") > 200 or max(map(len, text.splitlines()), default=0) > 400


def _depth(text: str) -> int:
    depth = deepest = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


class _Builder:
    """Turns nodes into plain data and notes what a reviewed file may not hold: that becomes None."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._seen: set[int] = set()

    def mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in (f"{_TAG}str", f"{_TAG}bool"):
                self._refuse(key_node, path, "a key that is not text", "a key that is text")
                continue
            key = key_node.value
            where = f"{path}.{key}" if path else key
            if key in result:
                self._refuse(key_node, where, "the key a second time", "each key once")
                continue
            result[key] = self._value(value_node, where, depth + 1, key_node)
        return result

    def _value(self, node: yaml.Node, path: str, depth: int, at: yaml.Node) -> Any:
        # An alias makes the composer hand out one node twice; refusing the second sight defuses every bomb.
        if id(node) in self._seen:
            return self._refuse(at, path, "an alias (*name)", "the value written out: no aliases")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            return self._refuse(at, path, f"more than {MAX_DEPTH} levels", f"at most {MAX_DEPTH} levels")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, path, depth)
        if node.tag == f"{_TAG}seq":
            return [
                self._value(item, f"{path}[{index}]", depth + 1, item)
                for index, item in enumerate(node.value)
            ]
        build = _SCALARS.get(node.tag)
        if build is None:
            tag = node.tag.replace(_TAG, "!!")
            return self._refuse(node, path, f"the tag {tag}", "plain text, numbers or booleans")
        try:
            return build(node.value)
        except ValueError:
            return self._refuse(node, path, shown(node.value), "a plain number, or text in quotes")

    def _refuse(self, node: yaml.Node, key: str, found: str, expected: str) -> None:
        self.findings.append(Finding(self.file, node.start_mark.line + 1, key, found, expected))


def _boolean(text: str) -> bool | str:
    # YAML 1.1 also reads yes, no, on and off as booleans; a reviewer does not, so they stay text.
    return _BOOLEANS.get(text.lower(), text)


_SCALARS: dict[str, Callable[[str], Hashable]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": int,
    f"{_TAG}float": float,
    f"{_TAG}bool": _boolean,
    f"{_TAG}null": lambda _: None,
    f"{_TAG}timestamp": str,
}
