"""Only the holder of the lease moves a hop's state, and every move is whole or not at all."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lean_ops.aws.checkpoints import Checkpoint, Checkpoints, Hold, PlanConflictError, State
from lean_ops.aws.leases import Claim, LeaseLostError, Leases
from lean_ops.batch.batch_plan import BatchPlan, SourceRange
from lean_ops.errors import DataFaultError
from lean_ops.naming import Names
from tests.batch_plans import plan_of

NOW = 1_790_000_000_000
ITEM_LIMIT = 400 * 1024
MOMENT = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
PLAN = plan_of(SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"))
OTHER = plan_of(SourceRange(start_snapshot=1, end_snapshot=3, reason="incremental"))


@pytest.fixture
def leases(dynamodb: Any, names: Names) -> Leases:
    return Leases(dynamodb, names)


@pytest.fixture
def checkpoints(dynamodb: Any, names: Names, leases: Leases) -> Checkpoints:
    return Checkpoints(dynamodb, names, leases, sleep=lambda _: None)


@pytest.fixture
def claim(leases: Leases) -> Claim:
    return leases.acquire("orders", "run-1", 60, NOW)


def test_a_hop_that_never_ran_has_no_state(checkpoints: Checkpoints) -> None:
    assert checkpoints.load("orders", "standardize") == State()


def test_a_batch_goes_from_plan_to_result_to_checkpoint(checkpoints: Checkpoints, claim: Claim) -> None:
    checkpoints.open_plan(claim, PLAN)
    assert checkpoints.load("orders", "standardize") == State(open_plan=PLAN)
    checkpoints.prepare_result(claim, PLAN, '{"rows": 3}')
    assert checkpoints.load("orders", "standardize") == State(open_plan=PLAN, prepared_result='{"rows": 3}')
    checkpoints.close(claim, PLAN, records=3, columns='{"a": 1}', now=MOMENT)
    assert checkpoints.load("orders", "standardize") == State(
        checkpoint=Checkpoint(2, MOMENT, 3, PLAN.batch_id, claim.fence), columns='{"a": 1}'
    )


def test_the_items_are_named_as_they_always_were(
    dynamodb: Any, names: Names, checkpoints: Checkpoints, claim: Claim
) -> None:
    for hop in ("standardize", "curate"):
        plan = PLAN.model_copy(update={"hop": hop})
        checkpoints.open_plan(claim, plan)
        checkpoints.close(claim, plan, records=3, columns="{}", now=MOMENT)
    items = dynamodb.scan(TableName=names.state_table("checkpoints"))["Items"]
    keys = sorted((item["pipeline_id"]["S"], item["checkpoint_type"]["S"]) for item in items)
    assert keys == [
        ("curation_orders", "columns"),
        ("curation_orders", "standardized"),
        ("standardization_orders", "columns"),
        ("standardization_orders", "raw"),
    ]
    assert next(item for item in items if item["checkpoint_type"]["S"] == "raw") == {
        "pipeline_id": {"S": "standardization_orders"},
        "checkpoint_type": {"S": "raw"},
        "snapshot_id": {"N": "2"},
        "updated_at": {"S": "2026-11-18T12:30:00Z"},
        "records_processed": {"N": "3"},
        "batch_id": {"S": "standardize-orders-1-2"},
        "fence": {"N": "1"},
    }


def test_the_same_plan_may_be_opened_again_and_keeps_its_result(
    checkpoints: Checkpoints, claim: Claim
) -> None:
    checkpoints.open_plan(claim, PLAN)
    checkpoints.prepare_result(claim, PLAN, "{}")
    checkpoints.open_plan(claim, PLAN)
    assert checkpoints.load("orders", "standardize") == State(open_plan=PLAN, prepared_result="{}")


@pytest.mark.parametrize(
    "intruder",
    [OTHER, PLAN.model_copy(update={"contract_version": "2.0"})],
    ids=["another range", "the same range under another contract"],
)
def test_an_open_plan_is_not_replaced(checkpoints: Checkpoints, claim: Claim, intruder: BatchPlan) -> None:
    checkpoints.open_plan(claim, PLAN)
    with pytest.raises(PlanConflictError):
        checkpoints.open_plan(claim, intruder)
    assert checkpoints.load("orders", "standardize").open_plan == PLAN


def test_a_discarded_plan_makes_room_for_another(checkpoints: Checkpoints, claim: Claim) -> None:
    checkpoints.open_plan(claim, PLAN)
    checkpoints.discard(claim, PLAN)
    checkpoints.open_plan(claim, OTHER)
    assert checkpoints.load("orders", "standardize") == State(open_plan=OTHER)


WRITES: dict[str, Callable[[Checkpoints, Claim, BatchPlan], None]] = {
    "open": lambda checkpoints, claim, plan: checkpoints.open_plan(claim, plan),
    "prepare": lambda checkpoints, claim, plan: checkpoints.prepare_result(claim, plan, "{}"),
    "close": lambda checkpoints, claim, plan: checkpoints.close(
        claim, plan, records=1, columns="{}", now=MOMENT
    ),
    "discard": lambda checkpoints, claim, plan: checkpoints.discard(claim, plan),
}
every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


@every_write
def test_nothing_is_written_for_a_plan_that_is_not_the_open_one(
    checkpoints: Checkpoints, claim: Claim, write: Callable[[Checkpoints, Claim, BatchPlan], None]
) -> None:
    checkpoints.open_plan(claim, PLAN)
    before = checkpoints.load("orders", "standardize")
    with pytest.raises(PlanConflictError):
        write(checkpoints, claim, OTHER)
    assert checkpoints.load("orders", "standardize") == before


@every_write
@pytest.mark.parametrize("successor_finished", [False, True])
def test_a_zombie_writes_nothing_even_where_nobody_wrote_since(
    *,
    checkpoints: Checkpoints,
    leases: Leases,
    claim: Claim,
    write: Callable[[Checkpoints, Claim, BatchPlan], None],
    successor_finished: bool,
) -> None:
    checkpoints.open_plan(claim, PLAN)
    successor = leases.acquire("orders", "run-2", 60, NOW + 60_000)
    if successor_finished:
        checkpoints.close(successor, PLAN, records=1, columns="{}", now=MOMENT)
        leases.release(successor)
    before = checkpoints.load("orders", "standardize")
    with pytest.raises(LeaseLostError):
        write(checkpoints, claim, PLAN)
    assert checkpoints.load("orders", "standardize") == before


def test_state_moves_on_after_the_locks_were_lost_and_their_fences_began_anew(
    dynamodb: Any, names: Names, checkpoints: Checkpoints, leases: Leases
) -> None:
    for round_number in range(3):
        claim = leases.acquire("orders", f"run-{round_number}", 60, NOW)
        leases.release(claim)
    third = leases.acquire("orders", "run-4", 60, NOW)
    checkpoints.open_plan(third, PLAN)
    dynamodb.delete_item(TableName=names.state_table("locks"), Key={"lock_id": {"S": "orders"}})
    anew = leases.acquire("orders", "run-5", 60, NOW)
    assert anew.fence < third.fence
    checkpoints.close(anew, PLAN, records=1, columns="{}", now=MOMENT)
    with pytest.raises(LeaseLostError):
        checkpoints.open_plan(third, OTHER)


def test_the_lease_of_another_topic_covers_nothing(checkpoints: Checkpoints, leases: Leases) -> None:
    with pytest.raises(ValueError, match="the lease of payments does not cover orders"):
        checkpoints.open_plan(leases.acquire("payments", "run-1", 60, NOW), PLAN)


def test_the_checkpoint_stays_before_a_range_that_is_not_complete(
    checkpoints: Checkpoints, claim: Claim
) -> None:
    first = PLAN.model_copy(update={"end_snapshot": 5, "last_day": date(2026, 1, 1)})
    second = PLAN.model_copy(update={"end_snapshot": 5, "first_day": date(2026, 1, 2)})
    for plan, expected in ((PLAN, 2), (first, 2), (second, 5)):
        checkpoints.open_plan(claim, plan)
        checkpoints.close(claim, plan, records=1, columns="{}", now=MOMENT)
        checkpoint = checkpoints.load("orders", "standardize").checkpoint
        assert checkpoint is not None
        assert (checkpoint.snapshot_id, checkpoint.batch_id) == (expected, plan.batch_id)


def test_a_write_that_meets_the_renewal_of_the_lease_is_repeated(
    dynamodb: Any, checkpoints: Checkpoints, claim: Claim
) -> None:
    conflicts = iter([True, True])

    def interfere(**_: Any) -> None:
        if next(conflicts, False):
            raise dynamodb.exceptions.TransactionCanceledException(
                {
                    "Error": {"Code": "TransactionCanceledException"},
                    "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
                },
                "TransactWriteItems",
            )

    dynamodb.meta.events.register("before-call.dynamodb.TransactWriteItems", interfere)
    checkpoints.open_plan(claim, PLAN)
    assert checkpoints.load("orders", "standardize").open_plan == PLAN
    conflicts = iter([True] * 9)
    with pytest.raises(ClientError):
        checkpoints.prepare_result(claim, PLAN, "{}")


def test_two_thousand_columns_with_the_longest_names_fit(
    dynamodb: Any, names: Names, checkpoints: Checkpoints, claim: Claim
) -> None:
    chance = random.Random(7)  # noqa: S311
    letters = string.ascii_lowercase + string.digits + "_"
    columns = json.dumps(
        {
            "".join(chance.choices(letters, k=255)): {
                "kinds": sorted(chance.sample(["array", "boolean", "number", "object", "string"], 3)),
                "last_seen": f"2026-11-{chance.randint(1, 30):02}",
            }
            for _ in range(2000)
        }
    )
    checkpoints.open_plan(claim, PLAN)
    checkpoints.prepare_result(claim, PLAN, columns)
    checkpoints.close(claim, PLAN, records=1, columns=columns, now=MOMENT)
    assert checkpoints.load("orders", "standardize").columns == columns
    items = dynamodb.scan(TableName=names.state_table("checkpoints"))["Items"]
    stored = next(len(item["state"]["B"]) for item in items if item["checkpoint_type"]["S"] == "columns")
    assert len(columns) > ITEM_LIMIT > stored + 1000


def test_the_largest_plan_fits(checkpoints: Checkpoints, claim: Claim) -> None:
    long_path = ".".join(["é" * 99] * 10)
    keys = PLAN.settings.keys.model_copy(update={"idempotency_key": long_path, "period_reference": long_path})
    plan = PLAN.model_copy(update={"settings": PLAN.settings.model_copy(update={"keys": keys})})
    checkpoints.open_plan(claim, plan)
    assert checkpoints.load("orders", "standardize").open_plan == plan


FAULT = DataFaultError("40 of 100 records lack a critical data element")


def test_a_held_plan_is_open_no_longer_and_says_why(checkpoints: Checkpoints, claim: Claim) -> None:
    checkpoints.open_plan(claim, PLAN)
    checkpoints.hold(claim, PLAN, FAULT, MOMENT)
    hold = Hold(PLAN, "DataFaultError", str(FAULT), MOMENT)
    assert checkpoints.load("orders", "standardize") == State(hold=hold)
    assert hold.concerns(PLAN.contract_sha256, PLAN.spec_sha256)
    assert not hold.concerns("c" * 64, PLAN.spec_sha256)
    assert not hold.concerns(PLAN.contract_sha256, "c" * 64)


def test_an_accepted_plan_is_open_again_with_its_reason(checkpoints: Checkpoints, claim: Claim) -> None:
    checkpoints.open_plan(claim, PLAN)
    checkpoints.hold(claim, PLAN, FAULT, MOMENT)
    hold = checkpoints.load("orders", "standardize").hold
    assert hold is not None
    checkpoints.accept(claim, hold, "the source was down")
    state = checkpoints.load("orders", "standardize")
    assert state == State(open_plan=PLAN.model_copy(update={"accepted": "the source was down"}))
    with pytest.raises(PlanConflictError):
        checkpoints.accept(claim, hold, "once more")


def test_a_hold_whose_contract_has_changed_is_forgotten_once(checkpoints: Checkpoints, claim: Claim) -> None:
    checkpoints.open_plan(claim, PLAN)
    checkpoints.hold(claim, PLAN, FAULT, MOMENT)
    hold = checkpoints.load("orders", "standardize").hold
    assert hold is not None
    checkpoints.release(claim, hold)
    assert checkpoints.load("orders", "standardize") == State()
    with pytest.raises(PlanConflictError):
        checkpoints.release(claim, hold)
