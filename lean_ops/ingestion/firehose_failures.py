"""Reads the objects that Firehose writes under its error prefix.

An object holds JSON lines, perhaps compressed. A line carries a record it could not deliver (`rawData`, in
base64), or, when commits kept failing, the paths of data files that no snapshot refers to. AWS documents the
first form; the second it only mentions, so a path is recognised wherever it stands in a line. What is neither
is kept as it is: nothing under the prefix is lost sight of.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lean_ops.identity import Identity
from lean_ops.ingestion import raw_record
from lean_ops.ingestion.attempts import NO_TOPIC, Attempt
from lean_ops.ingestion.raw_record import RawRecord

_GZIP = b"\x1f\x8b"
_DATA_FILE = re.compile(r"""(?:s3[an]?|file)://[^\s"',]+\.parquet""")

UNREADABLE = "UNREADABLE"


@dataclass(frozen=True)
class Failure:
    """One thing that Firehose could not deliver: a record, a data file full of them, or some other text."""

    code: str
    message: str
    text: str
    record: RawRecord | None = None
    data_file: str | None = None

    def of_row(self, row: Mapping[str, object]) -> Failure:
        """The failure of one row of this failure's data file; one that is no record is kept as a text."""
        record = raw_record.of_row(row)
        text = json.dumps(row, default=str) if record is None else raw_record.text(record)
        return replace(self, text=text, record=record, data_file=None)


def read(body: bytes) -> Iterator[Failure]:
    """Every failure in an object. Never raises, whatever the object."""
    for line in _lines(body):
        text = line.decode(errors="backslashreplace")
        try:
            fields: Any = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        yield from _failures(fields if isinstance(fields, dict) else {}, text)


def attempts(failures: Iterable[Failure], key: str, written: int, now: float) -> Iterator[Attempt]:
    """The rows of an object's failures. What is no record is named by the object, its place and its time."""
    for number, failure in enumerate(failures):
        record = failure.record
        identity = record.identity if record else Identity(NO_TOPIC, f"{key}#{number}", written)
        code = failure.code if record else UNREADABLE
        content = {"record": failure.text, "archive_key": key}
        yield Attempt(identity, "firehose", "open", code, failure.message, key, int(now * 1e6), content)


def _lines(body: bytes) -> list[bytes]:
    if body.startswith(_GZIP):
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError, zlib.error):
            return [body]
    return [line for line in body.split(b"\n") if line.strip()]


def _failures(fields: dict[str, Any], line: str) -> Iterator[Failure]:
    code = _storable(fields.get("errorCode") or fields.get("ErrorCode") or UNREADABLE)
    message = _storable(fields.get("errorMessage") or fields.get("ErrorMessage") or "")
    text = _raw_text(fields.get("rawData"))
    record = raw_record.decode(text)
    if record is not None:
        yield Failure(code, message, text, record=record)
        return
    paths = sorted(set(_DATA_FILE.findall(f"{line} {text}")))
    yield from (Failure(code, message, path, data_file=path) for path in paths)
    if not paths:
        yield Failure(code, message, text or line)


def _storable(value: object) -> str:
    """A JSON escape may have brought in half a character, which no table takes."""
    return str(value).encode(errors="backslashreplace").decode()


def _raw_text(data: object) -> str:
    if not isinstance(data, str):
        return ""
    try:
        return base64.b64decode(data, validate=True).decode(errors="backslashreplace")
    except (binascii.Error, ValueError):
        return ""
