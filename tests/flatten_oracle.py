"""What a payload says, a second time: character by character, slow, and sharing no code with lean_ops."""

from __future__ import annotations

DEPTH = 200
DIGITS = frozenset("0123456789")
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
WORDS = {"t": "true", "f": "false", "n": "null"}


class Fault(Exception):  # noqa: N818 - the word of the system under test
    """The code of what is wrong."""


def judge(text: str) -> dict[str, tuple[str, str]] | str:
    """The leaves of a document as path → (kind, text), or the code of its fault."""
    reader = _Reader(text)
    if reader.depth_of_brackets() > DEPTH:
        return "TOO_DEEP"
    if not text.strip(" \t\n\r"):
        return "EMPTY"
    try:
        value = reader.document()
    except Fault as fault:
        return str(fault)
    if reader.half_pairs:
        return "BAD_UNICODE"
    if not isinstance(value, dict):
        return "NOT_AN_OBJECT"
    leaves: dict[str, tuple[str, str]] = {}
    _collect(value, (), leaves)
    return leaves


def _collect(members: dict, above: tuple[str, ...], leaves: dict[str, tuple[str, str]]) -> None:
    for key, value in members.items():
        keys = (*above, key)
        if isinstance(value, dict) and value:
            _collect(value, keys, leaves)
        elif isinstance(value, dict):
            leaves[_path(keys)] = ("object", "{}")
        elif value is not None:
            leaves[_path(keys)] = value


def _path(keys: tuple[str, ...]) -> str:
    return ".".join(key.replace("\\", "\\\\").replace(".", "\\.") if key else "\\e" for key in keys)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.half_pairs = False

    def depth_of_brackets(self) -> int:
        depth = deepest = at = 0
        inside = False
        while at < len(self.text):
            character = self.text[at]
            if inside and character == "\\":
                at += 1
            elif character == '"':
                inside = not inside
            elif not inside and character in "[{":
                depth += 1
                deepest = max(deepest, depth)
            elif not inside and character in "]}":
                depth -= 1
            at += 1
        return deepest

    def document(self) -> object:
        value = self.value()
        self.space()
        if self.at < len(self.text):
            raise Fault("TRAILING_DATA")
        return value

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise Fault("CUT_OFF")
        return self.text[self.at]

    def take(self, expected: str) -> str:
        character = self.peek()
        if character not in expected:
            raise Fault("MALFORMED")
        self.at += 1
        return character

    def space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n\r":
            self.at += 1

    def value(self) -> object:
        self.space()
        start, opening = self.at, self.peek()
        if opening == "{":
            return self.members()
        if opening == "[":
            self.elements()
            return ("array", self.text[start : self.at])
        if opening == '"':
            return ("string", self.string())
        if opening in WORDS:
            for letter in WORDS[opening]:
                self.take(letter)
            return None if opening == "n" else ("boolean", WORDS[opening])
        self.number()
        return ("number", self.text[start : self.at])

    def members(self) -> dict[str, object]:
        members: dict[str, object] = {}
        self.take("{")
        self.space()
        if self.peek() == "}":
            self.at += 1
            return members
        while True:
            self.space()
            key = self.string()
            self.space()
            self.take(":")
            members[key] = self.value()
            self.space()
            if self.take(",}") == "}":
                return members

    def elements(self) -> None:
        self.take("[")
        self.space()
        if self.peek() == "]":
            self.at += 1
            return
        while True:
            self.value()
            self.space()
            if self.take(",]") == "]":
                return

    def string(self) -> str:
        self.take('"')
        units: list[str] = []
        while True:
            character = self.peek()
            self.at += 1
            if character == '"':
                return self.whole("".join(units))
            if character < " ":
                raise Fault("MALFORMED")
            units.append(self.escape() if character == "\\" else character)

    def escape(self) -> str:
        character = self.take("".join((*ESCAPES, "u")))
        if character != "u":
            return ESCAPES[character]
        return chr(int("".join(self.take("0123456789abcdefABCDEF") for _ in range(4)), 16))

    def whole(self, units: str) -> str:
        """UTF-16 units as text; halves that found no partner stay, and are remembered."""
        text = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        self.half_pairs |= any("\ud800" <= character <= "\udfff" for character in text)
        return text

    def number(self) -> None:
        if self.peek() == "-":
            self.at += 1
        if self.take("0123456789") == "0":
            if self.at < len(self.text) and self.text[self.at] in DIGITS:
                raise Fault("MALFORMED")
        else:
            self.digits()
        if self.at < len(self.text) and self.text[self.at] == ".":
            self.at += 1
            self.take("0123456789")
            self.digits()
        if self.at < len(self.text) and self.text[self.at] in "eE":
            self.at += 1
            if self.peek() in "+-":
                self.at += 1
            self.take("0123456789")
            self.digits()

    def digits(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in DIGITS:
            self.at += 1
