"""Remembers delivered messages for 24 hours, a hundred look-ups and 25 writes to a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.patience import PATIENT, Patience
from lean_ops.errors import RetryableError
from lean_ops.ingestion import chunks
from lean_ops.ingestion.ports import Receipt
from lean_ops.resources import IDEMPOTENCY_SECONDS

_GET_LIMIT = 100
_WRITE_LIMIT = 25


@dataclass(frozen=True)
class IdempotencyTable:
    """`message_key` → the receipt. DynamoDB deletes expired items late, so expiry is compared here."""

    client: Any
    table: str
    patience: Patience = PATIENT

    def recall(self, keys: Sequence[str], now: float) -> dict[str, Receipt]:
        """The receipts of those keys that are known. Keys must be distinct: BatchGetItem insists."""
        items: list[dict[str, dict[str, str]]] = []

        def attempt(pending: dict[str, Any]) -> dict[str, Any]:
            response = self.client.batch_get_item(RequestItems=pending)
            items.extend(response["Responses"].get(self.table, ()))
            left: dict[str, Any] = response.get("UnprocessedKeys", {})
            return left

        for run in chunks.by_count(keys, _GET_LIMIT):
            # Eventually consistent, it might not know what another process remembered a moment ago.
            wanted = {"Keys": [{"message_key": {"S": key}} for key in run], "ConsistentRead": True}
            self._all_done(self.patience.exhaust({self.table: wanted}, attempt))
        return {
            item["message_key"]["S"]: Receipt(item["sqs_id"]["S"], item["payload"]["S"])
            for item in items
            if int(item["expires_at"]["N"]) > now
        }

    def remember(self, receipts: Mapping[str, Receipt], now: float) -> None:
        """Store the receipts of messages that have been delivered, never of any other."""
        expires_at = {"N": str(int(now) + IDEMPOTENCY_SECONDS)}

        def attempt(pending: dict[str, Any]) -> dict[str, Any]:
            response = self.client.batch_write_item(RequestItems=pending)
            left: dict[str, Any] = response.get("UnprocessedItems", {})
            return left

        for run in chunks.by_count(list(receipts.items()), _WRITE_LIMIT):
            puts = [{"PutRequest": {"Item": _item(*entry) | {"expires_at": expires_at}}} for entry in run]
            self._all_done(self.patience.exhaust({self.table: puts}, attempt))

    def _all_done(self, left: dict[str, Any]) -> None:
        if left:
            raise RetryableError("UnprocessedItems", table=self.table)


def _item(key: str, receipt: Receipt) -> dict[str, dict[str, str]]:
    return {"message_key": {"S": key}, "sqs_id": {"S": receipt.sqs_id}, "payload": {"S": receipt.payload}}
