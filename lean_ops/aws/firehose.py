"""Puts records into the delivery stream: within its limits, resending only the entries it refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.patience import PATIENT, Patience
from lean_ops.errors import RetryableError
from lean_ops.ingestion import chunks
from lean_ops.resources import DELIVERY


@dataclass(frozen=True)
class DeliveryStream:
    """The one stream that all topics share."""

    client: Any
    name: str
    patience: Patience = PATIENT

    def put(self, records: Sequence[bytes]) -> dict[int, str]:
        """The index and error code of every record that was not acknowledged."""
        refused: dict[int, str] = {}
        for run in chunks.by_size(
            range(len(records)),
            lambda index: len(records[index]),
            most=DELIVERY.max_batch_records,
            most_bytes=DELIVERY.max_batch_bytes,
        ):
            refused.update(self._put_run(records, dict.fromkeys(run, "")))
        return refused

    def _put_run(self, records: Sequence[bytes], waiting: dict[int, str]) -> dict[int, str]:
        left = waiting  # what a failing call leaves is what the last answered one refused

        def attempt(pending: dict[int, str]) -> dict[int, str]:
            nonlocal left
            response = self.client.put_record_batch(
                DeliveryStreamName=self.name, Records=[{"Data": records[index]} for index in pending]
            )
            answers = zip(pending, response["RequestResponses"], strict=True)
            left = {index: answer["ErrorCode"] for index, answer in answers if "ErrorCode" in answer}
            return left

        try:
            return self.patience.exhaust(waiting, attempt)
        except RetryableError as error:
            return dict.fromkeys(left, str(error))
