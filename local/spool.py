"""Firehose's buffer is a file: what was acknowledged survives a kill and is delivered after the next start.

Records are appended to the open segment; a full or old segment is closed, delivered and only then removed.
A crash in between delivers a segment again: at least once, as Firehose itself promises. The operating system
has every byte before the acknowledgement, so only a crash of the machine could lose one.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from threading import Condition

_FRAME = struct.Struct(">QI")


class SpoolFullError(Exception):
    """The consumer is too far behind: the caller should come back later."""


@dataclass(frozen=True)
class Entry:
    """One record as it was put; the id names its place, so it is the same in every reading."""

    record_id: str
    arrived_ms: int
    data: bytes


@dataclass(frozen=True)
class Segment:
    """A closed file of records."""

    path: Path

    def entries(self) -> Iterator[Entry]:
        """Every whole record; a torn one at the end was never acknowledged."""
        content = self.path.read_bytes()
        offset = 0
        while offset + _FRAME.size <= len(content):
            arrived, size = _FRAME.unpack_from(content, offset)
            start = offset + _FRAME.size
            if start + size > len(content):
                return
            yield Entry(f"{self.path.stem}{offset:012d}", arrived, content[start : start + size])
            offset = start + size


class Spool:
    """Segments in a folder. Any thread may append; one thread takes."""

    def __init__(self, folder: Path, *, segment_bytes: int, segment_seconds: float, most_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes, self._segment_seconds = segment_bytes, segment_seconds
        self._most_bytes = most_bytes
        self._changed = Condition()
        self._closed = [Segment(path) for path in sorted(folder.glob("*.spool"))]
        self._number = int(self._closed[-1].path.stem) if self._closed else 0
        self._waiting_bytes = sum(segment.path.stat().st_size for segment in self._closed)
        self._stopping = False
        self._open_next()

    @property
    def waiting_bytes(self) -> int:
        """How much was acknowledged and is not delivered yet."""
        with self._changed:
            return self._waiting_bytes

    def append(self, records: list[bytes]) -> list[str]:
        """Keep the records; they may be acknowledged once this returns. The answer is their ids."""
        arrived = int(time.time() * 1000)
        frames = [_FRAME.pack(arrived, len(record)) + record for record in records]
        size = sum(map(len, frames))
        with self._changed:
            if self._waiting_bytes + size > self._most_bytes:
                raise SpoolFullError
            if self._size >= self._segment_bytes:
                self._close_open()
            starts = list(accumulate(map(len, frames), initial=self._size))[:-1]
            self._write(b"".join(frames))
            self._waiting_bytes += size
            self._changed.notify_all()
            return [f"{self._path.stem}{start:012d}" for start in starts]

    def next_segment(self) -> Segment | None:
        """The oldest segment that is due; waits for one. None once the spool is closed and nothing is due."""
        with self._changed:
            while not self._closed and not self._stopping:
                if self._size and (self._size >= self._segment_bytes or time.monotonic() >= self._due):
                    self._close_open()
                else:
                    self._changed.wait(max(self._due - time.monotonic(), 0) if self._size else None)
            return self._closed[0] if self._closed and not self._stopping else None

    def delivered(self, segment: Segment) -> None:
        """Forget a segment whose every record has reached its table or the error prefix."""
        size = segment.path.stat().st_size
        segment.path.unlink()
        with self._changed:
            self._closed.remove(segment)
            self._waiting_bytes -= size

    def close(self) -> None:
        """Wake the taker and let it end; what is left waits for the next start."""
        with self._changed:
            self._stopping = True
            self._file.close()
            self._changed.notify_all()

    def _write(self, content: bytes) -> None:
        if self._file.write(content) != len(content):
            # A full disk leaves a torn frame, behind which later records could not be found.
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise SpoolFullError
        if self._size == 0:
            self._due = time.monotonic() + self._segment_seconds
        self._size += len(content)

    def _close_open(self) -> None:
        self._file.close()
        self._closed.append(Segment(self._path))
        self._open_next()

    def _open_next(self) -> None:
        self._number += 1
        self._path = self._folder / f"{self._number:08d}.spool"
        self._file = self._path.open("wb", buffering=0)
        self._size = 0
        self._due = 0.0
