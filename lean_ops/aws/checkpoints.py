"""The state of a topic's hop: how far it got, the plan that is open, and what is known of its columns.

Items of the `checkpoints` table as the pipelines have always named them. Every write is one transaction that
also checks the lease: who lost it cannot write, not even an item that nobody wrote since.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lean_ops.aws.leases import Claim, Leases, lost
from lean_ops.batch.batch_plan import BatchPlan, Hop
from lean_ops.errors import RetryableError
from lean_ops.naming import Names

# The pipeline's name, and the name of what it reads, which is the type of its checkpoint.
_PIPELINES: dict[Hop, tuple[str, str]] = {
    "standardize": ("standardization", "raw"),
    "curate": ("curation", "standardized"),
    "replay": ("replay", "errors"),
}
_PLAN, _COLUMNS, _HOLD = "plan", "columns", "hold"
_CONFLICT_PAUSES = (0.05, 0.1, 0.2, 0.4)


class PlanConflictError(RetryableError):
    """Another plan is open than the one that was to be opened, prepared or closed."""


@dataclass(frozen=True)
class Checkpoint:
    """The newest closed batch. Its snapshot is the last one of the source that is done with completely."""

    snapshot_id: int | None
    updated_at: datetime
    records_processed: int
    batch_id: str
    fence: int


@dataclass(frozen=True)
class Hold:
    """A batch that a fault of its data stopped. It waits for a person, or for another contract or topic file."""

    plan: BatchPlan
    error: str
    message: str
    held_at: datetime

    def concerns(self, contract_sha256: str, spec_sha256: str) -> bool:
        """Whether the same batch would fail again."""
        return (self.plan.contract_sha256, self.plan.spec_sha256) == (contract_sha256, spec_sha256)


@dataclass(frozen=True)
class State:
    """All that is remembered of a hop; any of it may be missing, and the lake still tells the rest."""

    checkpoint: Checkpoint | None = None
    open_plan: BatchPlan | None = None
    prepared_result: str | None = None
    columns: str | None = None
    hold: Hold | None = None


class Checkpoints:
    """The `checkpoints` table. Results and columns are JSON texts, stored compressed: 2,000 columns fit."""

    def __init__(
        self, dynamodb: Any, names: Names, leases: Leases, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._dynamodb, self._leases, self._sleep = dynamodb, leases, sleep
        self._table = names.state_table("checkpoints")

    def load(self, topic: str, hop: Hop) -> State:
        """The state as of now."""
        pipeline, source = _PIPELINES[hop]
        answer = self._dynamodb.query(
            TableName=self._table,
            KeyConditionExpression="pipeline_id = :pipeline",
            ExpressionAttributeValues={":pipeline": {"S": f"{pipeline}_{topic}"}},
            ConsistentRead=True,
        )
        items = {item["checkpoint_type"]["S"]: item for item in answer["Items"]}
        plan = items.get(_PLAN)
        return State(
            checkpoint=_checkpoint(items[source]) if source in items else None,
            open_plan=BatchPlan.model_validate_json(plan["plan"]["S"]) if plan else None,
            prepared_result=_unpacked(plan["result"]) if plan and "result" in plan else None,
            columns=_unpacked(items[_COLUMNS]["state"]) if _COLUMNS in items else None,
            hold=_hold(items[_HOLD]) if _HOLD in items else None,
        )

    def open_plan(self, claim: Claim, plan: BatchPlan) -> None:
        """Write a plan down before anything is done. Opening the very same plan again changes nothing."""
        self._write(
            claim,
            plan,
            self._update(
                plan,
                _PLAN,
                {
                    "batch_id": {"S": plan.batch_id},
                    "plan": {"S": plan.model_dump_json()},
                    "fence": {"N": str(claim.fence)},
                },
                # By its text: the same range planned a second time has another time and perhaps contract.
                condition="attribute_not_exists(batch_id) OR #plan = :plan",
            ),
        )

    def prepare_result(self, claim: Claim, plan: BatchPlan, result: str) -> None:
        """Keep the result beside its plan before it is published, so that no crash can lose it."""
        values = {
            "batch_id": {"S": plan.batch_id},
            "result": _packed(result),
            "fence": {"N": str(claim.fence)},
        }
        self._write(claim, plan, self._update(plan, _PLAN, values, condition="batch_id = :batch_id"))

    def close(
        self, claim: Claim, plan: BatchPlan, *, records: int, columns: str | None, now: datetime
    ) -> None:
        """The batch is published: move the checkpoint, keep the columns, and remove the plan, all at once."""
        checkpoint = {
            "updated_at": {"S": now.isoformat().replace("+00:00", "Z")},
            "records_processed": {"N": str(records)},
            "batch_id": {"S": plan.batch_id},
            "fence": {"N": str(claim.fence)},
        }
        if plan.completes:
            # While slices of the range are left, who reads on from its end would lose them.
            checkpoint["snapshot_id"] = {"N": str(plan.end_snapshot)}
        _, source = _PIPELINES[plan.hop]
        fence = {"N": str(claim.fence)}
        remembered = (
            []
            if columns is None
            else [self._update(plan, _COLUMNS, {"state": _packed(columns), "fence": fence})]
        )
        self._write(claim, plan, self._remove(plan), self._update(plan, source, checkpoint), *remembered)

    def discard(self, claim: Claim, plan: BatchPlan) -> None:
        """Remove a plan that no longer fits the tables; nothing of it was published."""
        self._write(claim, plan, self._remove(plan))

    def hold(self, claim: Claim, plan: BatchPlan, error: Exception, now: datetime) -> None:
        """Put an open plan aside, with the fault that stopped it."""
        values = {
            "plan": {"S": plan.model_dump_json()},
            "error": {"S": type(error).__name__},
            "message": {"S": str(error)},
            "held_at": {"S": now.isoformat()},
        }
        self._write(claim, plan, self._remove(plan), self._update(plan, _HOLD, values))

    def release(self, claim: Claim, held: Hold) -> None:
        """Forget a batch that was held: what it was held under has changed."""
        self._write(claim, held.plan, self._remove_hold(held))

    def accept(self, claim: Claim, held: Hold, reason: str) -> None:
        """Open the plan of a held batch again; its data are accepted as they are."""
        plan = held.plan.model_copy(update={"accepted": reason})
        values = {
            "batch_id": {"S": plan.batch_id},
            "plan": {"S": plan.model_dump_json()},
            "fence": {"N": str(claim.fence)},
        }
        opened = self._update(plan, _PLAN, values, condition="attribute_not_exists(batch_id)")
        self._write(claim, plan, self._remove_hold(held), opened)

    def _remove_hold(self, held: Hold) -> dict[str, Any]:
        delete = {
            "TableName": self._table,
            "Key": _key(held.plan, _HOLD),
            "ConditionExpression": "#plan = :plan",
            "ExpressionAttributeNames": {"#plan": "plan"},
            "ExpressionAttributeValues": {":plan": {"S": held.plan.model_dump_json()}},
        }
        return {"Delete": delete}

    def _update(
        self, plan: BatchPlan, kind: str, values: dict[str, Any], condition: str | None = None
    ) -> dict[str, Any]:
        # Behind signs, because `plan` and `state` are words of DynamoDB's own.
        assignments = ", ".join(f"#{name} = :{name}" for name in values)
        update = {
            "TableName": self._table,
            "Key": _key(plan, kind),
            "UpdateExpression": f"SET {assignments}",
            "ExpressionAttributeNames": {f"#{name}": name for name in values},
            "ExpressionAttributeValues": {f":{name}": value for name, value in values.items()},
        }
        return {"Update": update | ({"ConditionExpression": condition} if condition else {})}

    def _remove(self, plan: BatchPlan) -> dict[str, Any]:
        delete = {
            "TableName": self._table,
            "Key": _key(plan, _PLAN),
            "ConditionExpression": "batch_id = :batch_id",
            "ExpressionAttributeValues": {":batch_id": {"S": plan.batch_id}},
        }
        return {"Delete": delete}

    def _write(self, claim: Claim, plan: BatchPlan, *actions: dict[str, Any]) -> None:
        if claim.name != plan.topic:
            raise ValueError(f"the lease of {claim.name} does not cover {plan.topic}")
        for pause in (*_CONFLICT_PAUSES, None):
            try:
                self._dynamodb.transact_write_items(TransactItems=[self._leases.condition(claim), *actions])
            except self._dynamodb.exceptions.TransactionCanceledException as error:
                codes = [reason.get("Code") for reason in error.response["CancellationReasons"]]
                if codes[0] == _REFUSED:
                    raise lost(claim) from None
                if _REFUSED in codes:
                    raise _conflict(plan) from None
                # The lease's own renewal may be in the middle of writing the item that we check.
                if pause is None or "TransactionConflict" not in codes:
                    raise
                self._sleep(pause)
            else:
                return


_REFUSED = "ConditionalCheckFailed"


def _key(plan: BatchPlan, kind: str) -> dict[str, Any]:
    pipeline, _ = _PIPELINES[plan.hop]
    return {"pipeline_id": {"S": f"{pipeline}_{plan.topic}"}, "checkpoint_type": {"S": kind}}


def _checkpoint(item: dict[str, Any]) -> Checkpoint:
    return Checkpoint(
        snapshot_id=int(item["snapshot_id"]["N"]) if "snapshot_id" in item else None,
        updated_at=datetime.fromisoformat(item["updated_at"]["S"]),
        records_processed=int(item["records_processed"]["N"]),
        batch_id=item["batch_id"]["S"],
        fence=int(item["fence"]["N"]),
    )


def _hold(item: dict[str, Any]) -> Hold:
    return Hold(
        plan=BatchPlan.model_validate_json(item["plan"]["S"]),
        error=item["error"]["S"],
        message=item["message"]["S"],
        held_at=datetime.fromisoformat(item["held_at"]["S"]),
    )


def _packed(text: str) -> dict[str, bytes]:
    return {"B": zlib.compress(text.encode())}


def _unpacked(value: dict[str, bytes]) -> str:
    return zlib.decompress(value["B"]).decode()


def _conflict(plan: BatchPlan) -> PlanConflictError:
    return PlanConflictError(
        f"the open plan of {plan.hop} for {plan.topic} is not {plan.batch_id}",
        next_step="run again: the open plan is read anew",
        topic=plan.topic,
        batch_id=plan.batch_id,
    )
