"""Firehose's call of the transform function: events of AWS's shape and size, four attempts, every id checked."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from lean_ops.ingestion import chunks
from lean_ops.naming import Names
from lean_ops.resources import DELIVERY
from local.spool import Entry

_LAMBDA_BYTES = 6 * 1024 * 1024
_PAUSE_SECONDS = 0.2


class Destination(msgspec.Struct, frozen=True, rename="camel"):
    """`otfMetadata`: where a record goes."""

    destination_database_name: str
    destination_table_name: str
    operation: str = "insert"


class _Metadata(msgspec.Struct, rename="camel"):
    otf_metadata: Destination | None = None


class Answer(msgspec.Struct, rename="camel"):
    """What the function says about one record."""

    record_id: str
    result: str
    data: bytes = b""
    metadata: _Metadata | None = None

    @property
    def destination(self) -> Destination | None:
        return self.metadata.otf_metadata if self.metadata else None


class _Response(msgspec.Struct):
    records: list[Answer]


_response = msgspec.json.Decoder(_Response)


class TransformFailedError(Exception):
    """The function could not be called, or its answer was none."""


class Transform:
    """The delivery stream's processor."""

    def __init__(self, names: Names, function: Callable[[Any], Any]) -> None:
        self._names = names
        self._function = function

    def __call__(self, entries: Sequence[Entry]) -> dict[str, Answer]:
        """The answers by record id, of at most one event's worth of records."""
        event = self._event(entries)
        for attempt in range(DELIVERY.transform_attempts):
            if attempt:
                time.sleep(_PAUSE_SECONDS * 2**attempt)
            try:
                answer = msgspec.json.encode(self._function(event))
                if len(answer) > _LAMBDA_BYTES:
                    failure = f"the answer has {len(answer)} bytes, Lambda returns {_LAMBDA_BYTES}"
                    continue
                return {record.record_id: record for record in _response.decode(answer).records}
            except Exception as error:  # noqa: BLE001 (whatever the function throws is a failed invocation)
                failure = f"{type(error).__name__}: {error}"
        raise TransformFailedError(failure)

    def _event(self, entries: Sequence[Entry]) -> dict[str, Any]:
        region, account = self._names.region, self._names.account
        return {
            "invocationId": str(uuid.uuid4()),
            "deliveryStreamArn": f"arn:aws:firehose:{region}:{account}:deliverystream/{self._names.delivery_stream}",
            "region": region,
            "records": [
                {
                    "recordId": entry.record_id,
                    "approximateArrivalTimestamp": entry.arrived_ms,
                    "data": base64.b64encode(entry.data).decode(),
                }
                for entry in entries
            ],
        }


def events_worth(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in runs that fit into an event."""
    most_bytes = DELIVERY.transform_event_bytes
    return chunks.by_size(entries, lambda entry: len(entry.data), most=len(entries), most_bytes=most_bytes)
