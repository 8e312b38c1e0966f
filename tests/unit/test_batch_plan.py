"""A plan survives being written down, and its name says exactly what it reads."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lean_ops.batch.batch_plan import BatchPlan, SourceRange, Token, spec_sha256
from lean_ops.config.topics import TopicSpec
from tests.batch_plans import plan_of

SNAPSHOTS = st.integers(1, 2**63 - 1)
TOPICS = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "errors")


@st.composite
def ranges(draw: st.DrawFn) -> SourceRange:
    start = draw(st.none() | SNAPSHOTS)
    days = sorted(draw(st.lists(st.dates(), min_size=2, max_size=2)))
    first_day, last_day = (day if draw(st.booleans()) else None for day in days)
    reason = "incremental" if start else draw(st.sampled_from(("first_read", "fallback")))
    return SourceRange(
        start_snapshot=start,
        end_snapshot=draw(SNAPSHOTS),
        first_day=first_day,
        last_day=last_day,
        reason=reason,
    )


@given(
    ranges(),
    TOPICS,
    st.datetimes(timezones=st.sampled_from((UTC, timezone(timedelta(hours=-8))))),
    st.floats(0, 1),
)
def test_a_plan_written_as_json_is_read_back_the_same(
    source: SourceRange, topic: str, batch_time: datetime, rate: float
) -> None:
    try:
        plan = plan_of(source, topic=topic, batch_time=batch_time, rate=rate)
    except OverflowError:
        return  # the first and last hours of the calendar have no UTC
    text = plan.model_dump_json()
    again = BatchPlan.model_validate_json(text)
    assert again == plan
    assert again.model_dump_json() == text
    assert again.batch_time.utcoffset() == timedelta(0)


HOPS = st.sampled_from(("standardize", "curate", "replay"))
PLANS = st.builds(plan_of, ranges(), hop=HOPS, topic=TOPICS)


@given(PLANS, PLANS)
def test_two_batches_share_a_name_only_when_they_read_the_same(one: BatchPlan, other: BatchPlan) -> None:
    def identity(plan: BatchPlan) -> tuple[object, ...]:
        return (plan.hop, plan.topic, plan.start_snapshot, plan.end_snapshot, plan.first_day, plan.last_day)

    assert (one.batch_id == other.batch_id) == (identity(one) == identity(other))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"), "standardize-orders-1-2"),
        (SourceRange(start_snapshot=None, end_snapshot=2, reason="fallback"), "standardize-orders-first-2"),
        (
            SourceRange(
                start_snapshot=None, end_snapshot=2, last_day=date(2026, 1, 31), reason="first_read"
            ),
            "standardize-orders-first-2-open-20260131",
        ),
        (
            SourceRange(
                start_snapshot=1, end_snapshot=2, first_day=date(476, 9, 4), last_day=date(476, 9, 5),
                reason="incremental",
            ),
            "standardize-orders-1-2-04760904-04760905",
        ),
    ],
)  # fmt: skip
def test_the_name_of_a_batch_is_literal(source: SourceRange, name: str) -> None:
    assert plan_of(source).batch_id == name


@given(ranges())
def test_a_token_survives_the_summary_of_a_snapshot_among_other_properties(source: SourceRange) -> None:
    token = plan_of(source).token
    assert Token.from_summary({"operation": "append", "added-records": "3", **token.summary()}) == token


def test_a_snapshot_that_is_not_of_a_batch_has_no_token() -> None:
    assert Token.from_summary({"operation": "replace"}) is None


@given(ranges(), st.dates())
def test_the_slices_of_a_range_meet_without_gap_or_overlap(source: SourceRange, day: date) -> None:
    if source.last_day is None or source.last_day == date.max:
        return
    following = source.model_copy(update={"first_day": source.last_day + timedelta(days=1), "last_day": None})
    begun = source.first_day is None or day >= source.first_day
    assert source.takes(day) + following.takes(day) == begun


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"start_snapshot": None, "end_snapshot": 2, "reason": "incremental"}, "a start for an incremental"),
        ({"start_snapshot": 1, "end_snapshot": 2, "reason": "fallback"}, "a start for an incremental"),
        (
            {"start_snapshot": 1, "end_snapshot": 2, "reason": "incremental",
             "first_day": date(2026, 1, 2), "last_day": date(2026, 1, 1)},
            "not after the last day",
        ),
        ({"start_snapshot": -1, "end_snapshot": 2, "reason": "incremental"}, "greater than 0"),
    ],
)  # fmt: skip
def test_a_range_that_contradicts_itself_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        SourceRange.model_validate(fields)


def test_a_batch_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="a time with its zone"):
        plan_of(
            SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental"),
            batch_time=datetime(2026, 1, 1),  # noqa: DTZ001
        )


def test_any_setting_changes_the_hash_of_a_topic() -> None:
    topic = TopicSpec(topic="orders", owner="platform", description="Orders.")
    other = topic.model_copy(update={"standardized_lifo": "batch"})
    assert spec_sha256(topic) == spec_sha256(TopicSpec.model_validate(topic.model_dump()))
    assert spec_sha256(topic) != spec_sha256(other)
