"""The envelope: what is kept to the byte, what is resolved, and which bodies have none."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.identity import Identity, to_micros
from lean_ops.ingestion.envelope import Code, Envelope, Rejection, parse, rfc3339

SENT = 1_794_996_000_000_000  # 2026-11-18T10:00:00Z
DAY = 86_400_000_000


def parsed(body: str) -> Envelope:
    found = parse(body, fallback_id="sqs-id", sent_time=SENT)
    assert isinstance(found, Envelope)
    return found


def published(value: str) -> Envelope:
    return parsed(f'{{"payload": {{}}, "publish_time": {value}}}')


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('{"a": 1.10, "b":1E400,  "c" : 0.10 }', '{"a": 1.10, "b":1E400,  "c" : 0.10 }'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ('{"n":100000000000000000000000000000.50}', '{"n":100000000000000000000000000000.50}'),
        ('{"é":"\\u00e9\\/"}', '{"é":"\\u00e9\\/"}'),
        ('"not JSON at all {"', "not JSON at all {"),
        ('"{\\"a\\": 1.10}"', '{"a": 1.10}'),
        ('""', ""),
        ('"nul \\u0000 emoji \\ud83d\\ude00"', "nul \x00 emoji 😀"),
    ],
)
def test_the_payload_is_kept_as_it_stands_in_the_source(source: str, text: str) -> None:
    assert parsed(f'{{ "payload" : {source} , "message_id": "m" }}').payload_text == text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", Code.EMPTY_BODY),
        (" \n\t", Code.EMPTY_BODY),
        ("hello", Code.NOT_JSON),
        ('{"payload": {}', Code.NOT_JSON),
        ('{"payload": {}} {}', Code.NOT_JSON),
        ('{"payload": {"a": 01}}', Code.NOT_JSON),
        ('{"payload": {"a": NaN}}', Code.NOT_JSON),
        ('\ufeff{"payload": {}}', Code.NOT_JSON),
        ('{"payload": ' + "[" * 100_000, Code.NOT_JSON),
        ('{"payload": {"cut emoji": "\\ud83d"}}', Code.NOT_JSON),
        ('{"payload": "cut emoji \\ud83d"}', Code.NOT_JSON),
        ('{"payload": {}, "message_id": "\ud83d"}', Code.NOT_UTF8),
        ("null", Code.WRONG_SHAPE),
        ("[]", Code.WRONG_SHAPE),
        ('"text"', Code.WRONG_SHAPE),
        ("{}", Code.WRONG_SHAPE),
        ('{"payload": null}', Code.WRONG_SHAPE),
        ('{"payload": [1]}', Code.WRONG_SHAPE),
        ('{"payload": 7}', Code.WRONG_SHAPE),
        ('{"payload": {}, "message_id": 7}', Code.WRONG_SHAPE),
        ('{"payload": {}, "idempotency_key": ["k"]}', Code.WRONG_SHAPE),
    ],
)
def test_a_body_without_an_envelope_is_rejected_with_a_code(body: str, code: Code) -> None:
    found = parse(body, fallback_id="sqs-id", sent_time=SENT)
    assert isinstance(found, Rejection)
    assert found.code is code


def test_a_rejection_quotes_nothing_of_the_message() -> None:
    for body in (
        '{"message_id": ["secret"], "payload": {}}',
        'secret{"',
        '{"payload": "secret',
        '["secret"]',
    ):
        found = parse(body, fallback_id="sqs-id", sent_time=SENT)
        assert isinstance(found, Rejection)
        assert "secret" not in found.detail


@pytest.mark.parametrize("value", ["null", '""'])
def test_a_missing_message_id_is_the_sqs_id(value: str) -> None:
    assert parsed(f'{{"payload": {{}}, "message_id": {value}}}').message_id == "sqs-id"
    assert parsed('{"payload": {}}').message_id == "sqs-id"


@pytest.mark.parametrize("value", ["null", '""'])
def test_a_missing_business_key_is_none(value: str) -> None:
    assert parsed(f'{{"payload": {{}}, "idempotency_key": {value}}}').idempotency_key is None


@pytest.mark.parametrize(
    "value",
    [
        '"2026-11-18T08:30:00.123456Z"',
        '"2026-11-18T08:30:00.123456789Z"',
        '"2026-11-18T10:30:00.123456+02:00"',
        '"2026-11-18 08:30:00.123456"',
        "1794990600.123456",
        "1794990600123456",
        "1.794990600123456E9",
    ],
)
def test_a_publish_time_is_read_to_the_microsecond(value: str) -> None:
    found = published(value)
    assert found.publish_time == 1_794_990_600_123_456
    assert not found.retimed


def test_epoch_milliseconds_are_understood() -> None:
    assert published("1794990600123").publish_time == 1_794_990_600_123_000


@pytest.mark.parametrize(
    "value",
    [
        '"1999-12-31T23:59:59.999999Z"',
        '"2026-11-19T10:00:00.000001Z"',
        '"9999-12-31T23:59:59-14:00"',
        '"0001-01-01T00:00:00+14:00"',
        '"2026-13-01T00:00:00Z"',
        '"yesterday"',
        '"\\u0662\\u0660\\u0662\\u0666"',
        "0",
        "-1794990600",
        "1E400",
        "1E400000000",
        "1E-400000000",
        "1E99999999999999999999",
        "1E-99999999999999999999",
        "true",
        "null",
        '{"seconds": 1794990600}',
    ],
)
def test_a_missing_or_absurd_publish_time_is_the_sent_time(value: str) -> None:
    found = published(value)
    assert found.publish_time == SENT
    assert found.retimed


@pytest.mark.parametrize("micros", [946_684_800_000_000, SENT + DAY])
def test_the_first_and_the_last_credible_publish_time_are_kept(micros: int) -> None:
    assert published(json.dumps(rfc3339(micros))).publish_time == micros


def test_a_resolved_body_keeps_payload_and_unknown_keys_to_the_byte() -> None:
    source = '{"trace": [1.10,  2], "payload": {"a":  1.10}, "publish_time": "never"}'
    resolved = parsed(source).resolved_body()
    assert '"trace":[1.10,  2]' in resolved
    assert '"payload":{"a":  1.10}' in resolved
    assert json.loads(resolved)["publish_time"] == "2026-11-18T10:00:00.000000Z"


def test_a_resolved_body_is_plain_ascii_where_an_escape_was_resolved() -> None:
    """SQS refuses a body with U+FFFE in it, which `\\ufffe` in a message_id would become."""
    resolved = parsed('{"payload": {}, "message_id": "\\ufffe"}').resolved_body()
    assert resolved.isascii()
    assert parsed(resolved).message_id == "\ufffe"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
fields = st.sampled_from(["message_id", "publish_time", "idempotency_key", "payload", "other"])
# JSON knows more numbers than Python writes.
numbers = st.from_regex(r"(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,30})?", fullmatch=True)
bodies = st.one_of(
    numbers.map(lambda number: f'{{"payload": {{}}, "publish_time": {number}}}'),
    st.text(st.characters(exclude_categories=())),
    st.dictionaries(fields, json_values).map(json.dumps),
    st.dictionaries(fields, json_values).map(lambda value: json.dumps(value, ensure_ascii=False)),
)


@given(bodies)
def test_no_body_makes_it_raise(body: str) -> None:
    assert isinstance(parse(body, fallback_id="sqs-id", sent_time=SENT), Envelope | Rejection)


@given(bodies, st.text(min_size=1))
def test_identity_and_payload_never_change_once_resolved(body: str, other_id: str) -> None:
    first = parse(body, fallback_id="sqs-id", sent_time=SENT)
    if isinstance(first, Envelope):
        again = parse(first.resolved_body(), fallback_id=other_id, sent_time=SENT + 90 * DAY)
        assert again == first


@given(st.integers(946_684_800_000_000, 4_102_444_800_000_000))
def test_a_time_survives_its_own_text(micros: int) -> None:
    assert to_micros(datetime.fromisoformat(rfc3339(micros))) == micros


identities = st.builds(Identity, st.sampled_from(["a", "a_b"]), st.text(), st.integers(0, 10**16))


@given(identities, identities)
def test_two_messages_never_share_a_key(one: Identity, other: Identity) -> None:
    assert (one.key == other.key) == (one == other)
    assert (one.record_id("dlq") == other.record_id("dlq")) == (one == other)
