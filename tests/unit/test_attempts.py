"""What a replay sends: whatever is open, and what an earlier replay sent long enough ago."""

from __future__ import annotations

from lean_ops.identity import Identity
from lean_ops.ingestion.attempts import IN_FLIGHT_MICROS, Standing, Status, plan_replay

NOW = 1_794_996_000_000_000


class Incomparable(Standing):
    """A standing that may not be compared: a plan that compares each with each is slow where it matters."""

    def __eq__(self, _: object) -> bool:
        raise AssertionError("compared")

    __hash__ = Standing.__hash__


def standing(number: int, status: Status, age: int = 0) -> Standing:
    return Incomparable(Identity("orders", f"m{number}", NOW), "dlq", 1, status, "NOT_JSON", NOW - age)


def test_what_was_replayed_just_now_is_left_alone_and_the_rest_is_sent_in_order() -> None:
    flying = [standing(number, "replayed") for number in range(3)]
    waiting = [standing(3, "open"), standing(4, "replayed", IN_FLIGHT_MICROS), standing(5, "open")]
    plan = plan_replay([*flying, standing(6, "resolved"), *waiting], NOW)
    assert [each.identity.message_id for each in plan.send] == ["m3", "m4", "m5"]
    assert plan.in_flight == 3
