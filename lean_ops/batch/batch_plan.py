"""The plan of a batch: everything that decides its result, written down before anything is done.

After a crash exactly this plan is done again. What a finished batch leaves in the summary of the snapshot that it
published, its token, is enough to know where the next one begins: the lake needs nobody's memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from lean_ops.config.specs import Spec
from lean_ops.config.topics import CuratedSpec, DriftSpec, KeysSpec, QualitySpec, TopicName, TopicSpec

Hop = Literal["standardize", "curate", "replay"]
Reason = Literal["incremental", "first_read", "fallback"]
SnapshotId = Annotated[int, Field(gt=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

BATCH_ID = "lean.batch-id"
_START = "lean.source-start"
_END = "lean.source-end"
_LAST_DAY = "lean.last-day"
_REASON = "lean.reason"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time with its zone")
    return moment.astimezone(UTC)


class SourceRange(Spec):
    """What a batch reads: the rows appended after `start_snapshot` up to `end_snapshot`, of some publish days.

    Without a start it is all rows of the table as of the end. Days are inclusive and open where None, so that
    the slices of a range cover it whatever days it holds; the slice without a last day completes the range.
    """

    start_snapshot: SnapshotId | None
    end_snapshot: SnapshotId
    first_day: date | None = None
    last_day: date | None = None
    reason: Reason

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.start_snapshot is None) == (self.reason == "incremental"):
            raise ValueError("a start for an incremental range, and for no other")
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise ValueError("a first day that is not after the last day")
        return self

    @property
    def completes(self) -> bool:
        """Whether nothing of the range is left when this slice is done."""
        return self.last_day is None

    def takes(self, day: date) -> bool:
        """Whether rows published on that day belong to the slice."""
        return (self.first_day is None or self.first_day <= day) and (
            self.last_day is None or day <= self.last_day
        )


class BatchSettings(Spec):
    """The settings of a topic that decide what a batch writes."""

    keys: KeysSpec
    drift: DriftSpec
    standardized_lifo: Literal["none", "batch"]
    curated: CuratedSpec
    quality: QualitySpec

    @classmethod
    def of(cls, topic: TopicSpec) -> Self:
        return cls(**{name: getattr(topic, name) for name in cls.model_fields})


class ErrorSelection(Spec):
    """Which open errors a replay takes; all of them by default."""

    error_code: str | None = None
    since: Annotated[datetime, AfterValidator(_in_utc)] | None = None


class BatchPlan(SourceRange):
    """One batch. `last_column_id` is the greatest that the target's head knew: greater ids are new columns.

    `accepted` is the reason for which a person let a batch pass that was held for its data.
    """

    hop: Hop
    topic: TopicName
    source_table: str
    contract_version: str
    contract_sha256: Sha256
    spec_sha256: Sha256
    settings: BatchSettings
    pii_key_id: str | None
    batch_time: Annotated[datetime, AfterValidator(_in_utc)]
    last_column_id: Annotated[int, Field(ge=0)]
    accepted: str | None = None
    selection: ErrorSelection | None = None

    @property
    def batch_id(self) -> str:
        """Literal, so that the same work always has the same name. Topics contain no hyphen."""
        start = self.start_snapshot or "first"
        days = (
            ""
            if self.first_day is self.last_day is None
            else f"-{_day(self.first_day)}-{_day(self.last_day)}"
        )
        return f"{self.hop}-{self.topic}-{start}-{self.end_snapshot}{days}"

    @property
    def token(self) -> Token:
        return Token(
            batch_id=self.batch_id,
            start_snapshot=self.start_snapshot,
            end_snapshot=self.end_snapshot,
            last_day=self.last_day,
            reason=self.reason,
        )


class Token(Spec):
    """What a published batch left in the summary of its snapshot; the newest one says what is done."""

    batch_id: str
    start_snapshot: SnapshotId | None
    end_snapshot: SnapshotId
    last_day: date | None
    reason: Reason

    @property
    def hop(self) -> str:
        return self.batch_id.partition("-")[0]

    def summary(self) -> dict[str, str]:
        """The token as properties of a snapshot."""
        start = {_START: str(self.start_snapshot)} if self.start_snapshot else {}
        last_day = {_LAST_DAY: self.last_day.isoformat()} if self.last_day else {}
        return {
            BATCH_ID: self.batch_id,
            _END: str(self.end_snapshot),
            _REASON: self.reason,
            **start,
            **last_day,
        }

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Self | None:
        """The token of a snapshot, or None when the snapshot is not of a batch."""
        if _END not in summary:
            return None
        fields = {
            "batch_id": summary[BATCH_ID],
            "start_snapshot": int(summary[_START]) if _START in summary else None,
            "end_snapshot": int(summary[_END]),
            "last_day": date.fromisoformat(summary[_LAST_DAY]) if _LAST_DAY in summary else None,
            "reason": summary[_REASON],
        }
        return cls.model_validate(fields)


def spec_sha256(topic: TopicSpec) -> str:
    """The hash of a topic's whole specification, defaults included."""
    return hashlib.sha256(json.dumps(topic.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def _day(day: date | None) -> str:
    return day.isoformat().replace("-", "") if day else "open"
