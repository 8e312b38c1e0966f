"""One DynamoDB item per topic: its circuit breaker and its lifetime counts, written together in one call.

Windowed counts (`ok`, `err`) and lifetime counts (`total_…`) are ADDed. The first batch of a new window finds
an older one in the item and starts it afresh; a half-open breaker counts on, whatever the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lean_ops.aws.patience import PATIENT, Patience
from lean_ops.errors import RetryableError
from lean_ops.ingestion.breaker import Breaker, State, window_of
from lean_ops.ingestion.ports import Tally

_TOTALS = (
    "received",
    "accepted",
    "suppressed",
    "conflicting",
    "repeated",
    "redelivered",
    "retimed",
    "unremembered",
)
_ADD_TOTALS = ", ".join(f"total_{name} :{name}" for name in _TOTALS)

# An update expression and the condition under which it may happen.
_SAME_WINDOW = (
    f"ADD ok :ok, err :err, {_ADD_TOTALS}",
    "#window >= :window OR #state = :half_open",
)
_NEW_WINDOW = (
    f"SET #window = :window, ok = :ok, err = :err ADD {_ADD_TOTALS}",
    "attribute_not_exists(#window) OR (#window < :window AND NOT #state = :half_open)",
)
_NAMES = {"#state": "state", "#window": "window"}


@dataclass(frozen=True)
class BreakerTable:
    """The `breakers` table."""

    client: Any
    table: str
    patience: Patience = PATIENT

    def read(self, topic: str) -> Breaker:
        """A topic's breaker; closed when it has none."""
        response = self._call(self.client.get_item, Key=_key(topic))
        return _breaker(response.get("Item") or _key(topic))

    def all(self) -> list[Breaker]:
        """Every stored breaker."""
        found: list[Breaker] = []
        start: dict[str, Any] = {}
        while True:
            page = self._call(self.client.scan, **start)
            found.extend(_breaker(item) for item in page["Items"])
            if "LastEvaluatedKey" not in page:
                return found
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def totals(self, topic: str) -> dict[str, int]:
        """A topic's lifetime counts."""
        item = self._call(self.client.get_item, Key=_key(topic), ConsistentRead=True).get("Item", {})
        return {name: int(item.get(f"total_{name}", {"N": "0"})["N"]) for name in _TOTALS}

    def count(self, topic: str, tally: Tally, now: float) -> Breaker:
        """Add a batch; returns the breaker as this batch left it."""
        numbers = {
            "ok": tally.received + tally.redelivered,
            "err": tally.refused,
            "window": window_of(now),
            **{name: getattr(tally, name) for name in _TOTALS},
        }
        values = {f":{name}": {"N": str(number)} for name, number in numbers.items()}
        values[":half_open"] = {"S": State.HALF_OPEN}
        # The window may turn, and another process may turn it first: then it is the same window again.
        for expression, condition in (_SAME_WINDOW, _NEW_WINDOW, _SAME_WINDOW):
            item = self._conditional(
                Key=_key(topic),
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeNames=_NAMES,
                ExpressionAttributeValues=values,
                ReturnValues="ALL_NEW",
            )
            if item is not None:
                return _breaker(item)
        raise RetryableError("ConditionalCheckFailedException", topic=topic)

    def move(self, current: Breaker, following: Breaker) -> bool:
        """Change the state. Exactly one caller wins; the others find that the state is no longer theirs."""
        values = {
            ":state": {"S": following.state},
            ":changed_at": {"N": str(following.changed_at)},
            ":trips": {"N": str(following.trips)},
            ":window": {"N": str(following.window)},
            ":zero": {"N": "0"},
            ":alerted": {"BOOL": following.alerted},
            ":from": {"S": current.state},
            ":since": {"N": str(current.changed_at)},
        }
        unborn = "attribute_not_exists(#state) OR " if current.changed_at == 0 else ""
        moved = self._conditional(
            Key=_key(current.topic),
            UpdateExpression="SET #state = :state, changed_at = :changed_at, trips = :trips, "
            "alerted = :alerted, #window = :window, ok = :zero, err = :zero",
            ConditionExpression=f"{unborn}(#state = :from AND changed_at = :since)",
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues=values,
        )
        return moved is not None

    def mark_alerted(self, breaker: Breaker) -> None:
        """Note that people know of this outage."""
        self._call(
            self.client.update_item,
            Key=_key(breaker.topic),
            UpdateExpression="SET alerted = :yes",
            ExpressionAttributeValues={":yes": {"BOOL": True}},
        )

    def _conditional(self, **arguments: Any) -> Mapping[str, Any] | None:
        """The item as it is afterwards, or None when the condition did not hold."""
        try:
            response = self._call(self.client.update_item, **arguments)
        except RetryableError as error:
            if str(error) == "ConditionalCheckFailedException":
                return None
            raise
        attributes: Mapping[str, Any] = response.get("Attributes", {})
        return attributes

    def _call(self, operation: Callable[..., Any], **arguments: Any) -> Any:
        answers: list[Any] = []

        def attempt(_: bool) -> bool:
            answers.append(operation(TableName=self.table, **arguments))
            return False

        # After a lost answer an ADD may have happened: repeating it would count twice, so only throttled
        # calls, which AWS has not carried out, are repeated.
        self.patience.exhaust(True, attempt, only_throttled=True)
        return answers[-1]


def _key(topic: str) -> dict[str, Any]:
    return {"topic_name": {"S": topic}}


def _breaker(item: Mapping[str, Any]) -> Breaker:
    def number(name: str) -> int:
        return int(item[name]["N"]) if name in item else 0

    return Breaker(
        item["topic_name"]["S"],
        State(item["state"]["S"]) if "state" in item else State.CLOSED,
        number("changed_at"),
        number("trips"),
        number("window"),
        number("ok"),
        number("err"),
        alerted=item["alerted"]["BOOL"] if "alerted" in item else True,
    )
