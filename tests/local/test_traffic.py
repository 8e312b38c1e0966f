"""The traffic's truth is the truth: every message is what its record says it is, and the days are as described."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.errors import ConfigError, LeanOpsError
from lean_ops.ingestion.envelope import Envelope, Rejection, parse
from lean_ops.payload.flatten import ParseFault, leaves
from local.emulation import injection
from local.emulation.expectation import expect
from local.emulation.injection import TROUBLES, InjectionSpec
from local.emulation.ledger import DAYS, Ledger, Setting
from local.emulation.live import endless
from local.emulation.message import Message
from local.emulation.traffic import LATEST, SHARES, Day, Traffic, anchor_of
from tests.repositories import ROOT
from tests.spark.casting_oracle import NotOfTypeError, cast

SHIPPED = injection.load(injection.DEFAULT_FILE)
TODAY = date(2026, 11, 18)
NOW = 2**60  # later than anything that is sent

traffics = st.builds(
    Traffic,
    seed=st.integers(0, 10**6),
    anchor=st.just(anchor_of(TODAY)),
    records=st.integers(10, 300),
    injection=st.just(SHIPPED),
)
days = st.sampled_from(DAYS)
topics = st.sampled_from(list(SHARES))


def everything(traffic: Traffic, topic: str) -> list[Message]:
    return [message for day in DAYS for message in traffic.of(day, topic)]


@given(traffics, days, topics)
def test_the_same_seed_gives_the_same_messages_and_another_seed_others(
    traffic: Traffic, day: Day, topic: str
) -> None:
    other = Traffic(traffic.seed + 1, traffic.anchor, traffic.records, traffic.injection)
    assert list(traffic.of(day, topic)) == list(traffic.of(day, topic))
    assert {m.payload for m in traffic.of("day1", topic)}.isdisjoint(
        m.payload for m in other.of("day1", topic)
    )


@given(traffics, topics)
def test_no_two_messages_share_an_identity(traffic: Traffic, topic: str) -> None:
    identities = [message.identity for message in everything(traffic, topic)]
    assert len(set(identities)) == len(identities)


@given(traffics, topics)
def test_the_processor_sees_exactly_what_the_truth_says(traffic: Traffic, topic: str) -> None:
    for message in everything(traffic, topic):
        parsed = parse(message.body, fallback_id="none", sent_time=NOW)
        if message.dead_letter:
            assert isinstance(parsed, Rejection)
            assert parsed.code == message.dead_letter
        else:
            assert isinstance(parsed, Envelope)
            assert (parsed.message_id, parsed.publish_time) == message.identity
            assert parsed.payload_text == message.payload
            assert not parsed.retimed


@given(traffics, topics)
def test_a_payload_parses_or_fails_as_the_truth_says(traffic: Traffic, topic: str) -> None:
    for message in everything(traffic, topic):
        if message.dead_letter:
            continue
        found = leaves(message.payload)
        if message.parse_error:
            assert isinstance(found, ParseFault)
            assert found.code == message.parse_error
        else:
            assert not isinstance(found, ParseFault)


@given(traffics, st.sampled_from(["orders", "events"]))
def test_values_and_violations_are_what_the_contract_makes_of_the_payload(
    traffic: Traffic, topic: str
) -> None:
    contract = json.loads((ROOT / "schemas" / topic / "schema.json").read_text())
    for message in everything(traffic, topic):
        if message.dead_letter or message.parse_error:
            continue
        found = leaves(message.payload)
        assert isinstance(found, dict)
        values, violations = {}, []
        for column in contract["payload_columns"]:
            leaf = found.get(column["path"])
            text = leaf.text if leaf else None
            if column.get("cde") and not (text or "").strip():
                violations.append(("CDE_MISSING", column["name"]))
                continue
            if text is None and "default" in column:
                text = str(column["default"]).lower() if column["default"] is False else column["default"]
            try:
                value = None if text is None else cast(text, column["type"])
            except NotOfTypeError:
                violations.append(("WRONG_TYPE", column["name"]))
                continue
            values[column["name"]] = None if value is None else _text(value)
        if message.violation:
            assert violations == [(message.violation.code, message.violation.column)]
        else:
            assert (values, violations) == (message.values, [])


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@given(traffics, topics)
def test_the_first_day_is_clean_and_the_second_has_every_kind_of_trouble(
    traffic: Traffic, topic: str
) -> None:
    assert {message.trouble for message in traffic.of("day1", topic)} == {""}
    assert {message.trouble for message in traffic.of("day2", topic)} >= set(TROUBLES)


def test_shares_are_kept_and_a_share_of_zero_never_comes_up() -> None:
    spec = InjectionSpec(correction=0.3, empty_payload=0.1)
    counts = Counter(m.trouble for m in Traffic(3, anchor_of(TODAY), 40_000, spec).of("day2", "orders"))
    assert set(counts) == {"", "correction", "empty_payload"}
    assert 1000 < counts["correction"] < 1400  # 30 % of 4000
    assert 300 < counts["empty_payload"] < 500


@given(traffics, topics)
def test_late_corrections_move_keys_over_0_to_14_months_and_all_lie_in_the_past(
    traffic: Traffic, topic: str
) -> None:
    first = {message.key: message for message in traffic.of("day1", topic)}
    late = list(traffic.of("day4", topic))
    assert {_months(message) - _months(first[message.key]) for message in late} == set(range(LATEST + 1))
    assert all(message.period != first[message.key].period for message in late)
    assert all(date.fromisoformat(_day(message)) <= TODAY for message in late)


def _day(message: Message) -> str:
    return message.body.partition('"publish_time":"')[2][:10]


def _months(message: Message) -> int:
    year, month, _ = map(int, _day(message).split("-"))
    return year * 12 + month


@given(traffics, st.sampled_from(["orders", "events"]), st.randoms())
def test_what_is_expected_does_not_depend_on_the_order_of_the_messages(
    traffic: Traffic, topic: str, rng: object
) -> None:
    messages = everything(traffic, topic)
    shuffled = list(messages)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert expect(topic, messages, processed=True) == expect(topic, shuffled, processed=True)


@given(traffics, topics)
def test_every_expectation_balances(traffic: Traffic, topic: str) -> None:
    messages = everything(traffic, topic)
    expected = expect(topic, messages, processed=True)
    dead = sum(expected.dead_letters.values())
    assert len(messages) == len(expected.raw) + dead
    assert len(expected.raw) == len(expected.standardized) + len(expected.parse_errors)
    assert len(expected.standardized) == len(expected.rows) + expected.superseded + len(expected.errors)
    waiting = expect(topic, messages, processed=False)
    assert (waiting.raw, waiting.standardized, waiting.rows) == (expected.raw, {}, {})


@given(traffics, topics)
def test_new_columns_and_new_kinds_of_values_are_those_that_flattening_sees(
    traffic: Traffic, topic: str
) -> None:
    kinds: dict[str, set[str]] = {}
    messages = everything(traffic, topic)
    for message in messages:
        found = {} if message.dead_letter or message.parse_error else leaves(message.payload)
        assert isinstance(found, dict)
        for path, leaf in found.items():
            kinds.setdefault(path.replace(".", "_").lower(), set()).add(leaf.kind)
    expected = expect(topic, messages, processed=True)
    assert expected.added_columns == set(kinds)
    assert expected.flipped_columns == {column for column, seen in kinds.items() if len(seen) > 1}


def test_an_invalid_correction_does_not_hide_the_valid_version() -> None:
    messages = everything(Traffic(1, anchor_of(TODAY), 100, SHIPPED), "orders")
    rows = expect("orders", messages, processed=True).rows
    invalid = [message for message in messages if message.violation and message.key in rows]
    assert invalid
    assert all(rows[message.key].message_id != message.message_id for message in invalid)


def test_the_truth_on_disk_is_the_truth(tmp_path: Path) -> None:
    traffic, ledger = Traffic(1, anchor_of(TODAY), 50, SHIPPED), Ledger(tmp_path)
    assert not ledger.has("day2")
    for topic in SHARES:
        ledger.record("day2", topic, traffic.of("day2", topic))
    assert ledger.has("day2")
    assert list(ledger.messages("events")) == list(traffic.of("day2", "events"))


def test_day_1_begins_and_every_day_comes_once(tmp_path: Path) -> None:
    traffic, ledger = Traffic(1, anchor_of(TODAY), 50, SHIPPED), Ledger(tmp_path)
    for phase in ("day2", "schema", "verify"):
        with pytest.raises(LeanOpsError, match="no emulation has begun"):
            ledger.require_turn(phase)
    ledger.require_turn("day1")
    ledger.begin(Setting(seed=1, anchor=traffic.anchor, records=50, entry="sqs"))
    ledger.record("day1", "orders", traffic.of("day1", "orders"))
    ledger.require_turn("day2")
    with pytest.raises(LeanOpsError, match="day1 was sent before"):
        ledger.require_turn("day1")
    ledger.go_live()
    for phase in ("day1", "day2", "verify"):
        with pytest.raises(LeanOpsError, match="live traffic was sent here"):
            ledger.require_turn(phase)


def test_live_traffic_goes_on_with_new_keys_in_every_round() -> None:
    messages = list(islice(endless(7), 2000))
    assert {message.topic for message in messages[:10]} == set(SHARES)
    assert len({message.identity for message in messages}) == len(messages)
    assert {message.message_id.split("-")[2] for message in messages} > {"7"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("duplicate: 2\n", "at most 1"),
        ("duplicates: 0.1\n", "duplicate"),
        ("duplicate: 0.6\ncorrection: 0.6\n", "add up to 1"),
        ("duplicate: often\n", "a number"),
    ],
)
def test_a_wrong_injection_file_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "injection.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        injection.load(file)
