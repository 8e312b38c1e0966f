"""The truth on disk, under the home folder: a file of messages per day and topic, and what decided them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

from lean_ops.errors import LeanOpsError
from local.emulation.message import Message
from local.emulation.traffic import Day

DAYS: tuple[Day, ...] = ("day1", "day2", "day4")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the traffic of an emulation; written down on day 1, the same for all days after it."""

    seed: int
    anchor: date
    records: int
    entry: str


@dataclass(frozen=True)
class Ledger:
    """The folder `emulation/` of a home."""

    folder: Path

    @property
    def setting(self) -> Setting:
        try:
            return msgspec.json.decode((self.folder / "setting.json").read_bytes(), type=Setting)
        except FileNotFoundError:
            raise LeanOpsError("no emulation has begun here", next_step="lean-ops emulate day1") from None

    def begin(self, setting: Setting) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "setting.json").write_bytes(msgspec.json.encode(setting))

    @property
    def deployed(self) -> frozenset[str]:
        """The topics whose contract was deployed."""
        file = self.folder / "deployed.json"
        return frozenset(json.loads(file.read_text("utf-8"))) if file.exists() else frozenset()

    def deploy(self, topics: Iterable[str]) -> None:
        (self.folder / "deployed.json").write_text(json.dumps(sorted(topics)), "utf-8")

    def require_turn(self, phase: str) -> None:
        """Day 1 begins an emulation, and every day comes once; live traffic has no truth to compare with."""
        if self._live.exists():
            raise LeanOpsError(
                "live traffic was sent here, of which no truth is known", next_step="lean-ops emulate clean"
            )
        if phase != "day1":
            _ = self.setting
        if phase in DAYS and self.has(phase):
            raise LeanOpsError(f"{phase} was sent before", next_step="lean-ops emulate clean")

    def go_live(self) -> None:
        """From now on the tables hold messages that nobody wrote down."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._live.touch()

    @property
    def _live(self) -> Path:
        return self.folder / "live"

    def has(self, day: str) -> bool:
        return any(self.folder.glob(f"{day}-*.ndjson"))

    def record(self, day: Day, topic: str, messages: Iterable[Message]) -> None:
        """Before anything is sent: a message that is under way has its truth on disk."""
        encoder = msgspec.json.Encoder()
        with self._file(day, topic).open("wb") as stream:
            stream.writelines(encoder.encode(message) + b"\n" for message in messages)

    def messages(self, topic: str, *days: Day) -> Iterator[Message]:
        """The truth of the days that were sent, all of them by default."""
        decoder = msgspec.json.Decoder(Message)
        for file in (self._file(day, topic) for day in days or DAYS):
            if file.exists():
                with file.open("rb") as stream:
                    yield from map(decoder.decode, stream)

    def _file(self, day: Day, topic: str) -> Path:
        return self.folder / f"{day}-{topic}.ndjson"
