"""One outage is one alert: failures of a class within a window are one group, whatever topics they befall.

The first failure of a group is told at once. The others are counted in the group's item, and told together by
whoever closes the group once its window is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lean_ops.naming import Names

WINDOW_SECONDS = 900
_PREFIX = "alerts#"


@dataclass(frozen=True)
class Group:
    """A closed group: the failures that were not told one by one."""

    error_class: str
    failures: int
    topics: tuple[str, ...]


class AlertGroups:
    """Items of the `locks` table: conditional writes only."""

    def __init__(self, dynamodb: Any, names: Names, *, window_seconds: int = WINDOW_SECONDS) -> None:
        self._dynamodb, self._window = dynamodb, window_seconds
        self._table = names.state_table("locks")

    def first(self, error_class: str, topic: str, now: float) -> bool:
        """Whether this failure opens a group, and is to be told; else it is counted in the open one."""
        try:
            self._update(
                error_class,
                "SET opened_at = :now, failures = :none REMOVE topics",
                # A group that nobody has closed yet still has failures to tell: it stays open.
                "attribute_not_exists(opened_at) OR (opened_at <= :over AND failures = :none)",
                {":now": _number(now), ":none": _number(0), ":over": _number(now - self._window)},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            one = {":one": _number(1), ":topic": {"SS": [topic]}}
            self._update(error_class, "ADD failures :one, topics :topic", None, one)
            return False
        return True

    def close(self, error_class: str, now: float) -> Group | None:
        """The failures of a group whose window is over; None when there are none to tell."""
        try:
            answer = self._update(
                error_class,
                "REMOVE opened_at, failures, topics",
                "opened_at <= :over AND failures > :none",
                {":none": _number(0), ":over": _number(now - self._window)},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return None
        item = answer["Attributes"]
        return Group(error_class, int(item["failures"]["N"]), tuple(sorted(item["topics"]["SS"])))

    def _update(
        self, error_class: str, expression: str, condition: str | None, values: dict[str, Any]
    ) -> Any:
        return self._dynamodb.update_item(
            TableName=self._table,
            Key={"lock_id": {"S": f"{_PREFIX}{error_class}"}},
            UpdateExpression=expression,
            ExpressionAttributeValues=values,
            ReturnValues="ALL_OLD",
            **({"ConditionExpression": condition} if condition else {}),
        )


def _number(value: float) -> dict[str, str]:
    return {"N": str(int(value))}
