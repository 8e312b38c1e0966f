"""Leases: who may change a topic's tables right now, and a fencing number that only ever grows.

A lease is one item of the `locks` table: a topic's has its name, any other has a `#` in it. The number survives
release and expiry, so that whatever is written under it can be refused to everybody who held the lease before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from lean_ops.errors import RetryableError
from lean_ops.naming import Names

LEASE_SECONDS = 90.0
_BEATS_PER_LEASE = 4  # three renewals may fail in a row before the lease is gone

Clock = Callable[[], int]

log = logging.getLogger(__name__)


class LeaseHeldError(RetryableError):
    """Somebody else holds the lease; it is free at its expiry at the latest."""


class LeaseLostError(RetryableError):
    """The lease is no longer ours: somebody else may hold it, so nothing more may be written under it."""


def epoch_millis() -> int:
    """The clock of leases."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Claim:
    """A lease as it was granted. `owner` names one run, so that two runs never share one."""

    name: str
    owner: str
    fence: int
    expires_at: int


class Leases:
    """The `locks` table: conditional writes only."""

    def __init__(self, dynamodb: Any, names: Names) -> None:
        self._dynamodb = dynamodb
        self.table = names.state_table("locks")

    def acquire(self, name: str, owner: str, seconds: float, now: int) -> Claim:
        """The lease with the next fencing number, if it is free or expired."""
        expires_at = now + round(seconds * 1000)
        try:
            item = self._update(
                name,
                "SET #owner = :owner, expires_at = :expires_at ADD fence :one",
                "attribute_not_exists(#owner) OR expires_at <= :now",
                {":owner": owner, ":expires_at": expires_at, ":one": 1, ":now": now},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException as refusal:
            item = refusal.response["Item"]
            # botocore repeats a call whose answer got lost: then the holder that we meet is this very call.
            if _holder(item) != (owner, expires_at):
                raise _held(name, *_holder(item)) from None
        return Claim(name, owner, int(item["fence"]["N"]), expires_at)

    def renew(self, claim: Claim, seconds: float, now: int) -> Claim:
        """The same lease with a later expiry; LeaseLostError when somebody else took it meanwhile."""
        expires_at = now + round(seconds * 1000)
        self._update_own(claim, "SET expires_at = :expires_at", {":expires_at": expires_at})
        return replace(claim, expires_at=expires_at)

    def release(self, claim: Claim) -> None:
        """Give the lease back: free at once, its number kept."""
        self._update_own(claim, "REMOVE #owner, expires_at", {})

    def condition(self, claim: Claim) -> dict[str, Any]:
        """A condition for a transaction: it holds for as long as nobody else was granted the lease."""
        return {
            "ConditionCheck": {
                "TableName": self.table,
                "Key": {"lock_id": {"S": claim.name}},
                "ConditionExpression": _OWN,
                "ExpressionAttributeNames": {"#owner": "owner"},
                "ExpressionAttributeValues": _values(_own(claim)),
            }
        }

    def _update_own(self, claim: Claim, expression: str, values: dict[str, str | int]) -> None:
        try:
            self._update(claim.name, expression, _OWN, values | _own(claim))
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            raise lost(claim) from None

    def _update(
        self, name: str, expression: str, condition: str, values: dict[str, str | int]
    ) -> dict[str, dict[str, str]]:
        answer = self._dynamodb.update_item(
            TableName=self.table,
            Key={"lock_id": {"S": name}},
            UpdateExpression=expression,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues=_values(values),
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        item: dict[str, dict[str, str]] = answer["Attributes"]
        return item


class Lease:
    """Holds a lease while a `with` block runs; a thread renews it, so that long work keeps it.

    The work calls `check` before every effect: it raises as soon as the lease is, or may be, somebody else's.
    """

    def __init__(
        self,
        leases: Leases,
        name: str,
        owner: str,
        *,
        seconds: float = LEASE_SECONDS,
        clock: Clock = epoch_millis,
    ) -> None:
        self._leases, self._seconds, self._clock = leases, seconds, clock
        self._name, self._owner = name, owner
        self._claim: Claim | None = None
        self._taken_away = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease of {name}", daemon=True)

    @property
    def claim(self) -> Claim:
        """What was granted, with its latest expiry."""
        if self._claim is None:
            raise RuntimeError("a lease is held only inside its `with` block")
        return self._claim

    def check(self) -> None:
        """Raise LeaseLostError unless the lease is still ours by our own clock."""
        if self._taken_away or self._clock() >= self.claim.expires_at:
            raise lost(self.claim)

    def __enter__(self) -> Self:
        self._claim = self._leases.acquire(self._name, self._owner, self._seconds, self._clock())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._leases.release(self.claim)
        except (LeaseLostError, ClientError, BotoCoreError) as failure:
            # The work inside has succeeded or failed on its own account, and the lease expires by itself.
            log.warning("lease of %s was not released: %s", self._name, failure)

    def _beat(self) -> None:
        while not self._stop.wait(self._seconds / _BEATS_PER_LEASE):
            try:
                self._claim = self._leases.renew(self.claim, self._seconds, self._clock())
            except LeaseLostError:
                self._taken_away = True
                return
            except (ClientError, BotoCoreError) as failure:
                log.warning("lease of %s was not renewed, trying again: %s", self._name, failure)


_OWN = "#owner = :own AND fence = :fence"


def _own(claim: Claim) -> dict[str, str | int]:
    return {":own": claim.owner, ":fence": claim.fence}


def _values(values: dict[str, str | int]) -> dict[str, dict[str, str]]:
    return {key: {"N" if isinstance(value, int) else "S": str(value)} for key, value in values.items()}


def _holder(item: dict[str, dict[str, str]]) -> tuple[str, int]:
    return item["owner"]["S"], int(item["expires_at"]["N"])


def _held(name: str, holder: str, expires_at: int) -> LeaseHeldError:
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires_at / 1000))
    return LeaseHeldError(
        f"the lease of {name} is held by {holder} until {until}",
        next_step="wait until it is released or expires, and run again",
        lease=name,
        holder=holder,
        expires_at=expires_at,
    )


def lost(claim: Claim) -> LeaseLostError:
    """The error of a lease that is no longer ours."""
    return LeaseLostError(
        f"the lease of {claim.name} is lost: {claim.owner} held it with fence {claim.fence}",
        next_step="run again: whatever was not published is done anew",
        lease=claim.name,
        owner=claim.owner,
        fence=claim.fence,
    )
