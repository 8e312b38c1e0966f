"""Contract files: everything a typo could break is found, all at once, each with its JSON pointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.config.repository import Repository, load_topics
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.contracts.contract_file import MAX_BYTES, MAX_DEPTH, ReadContract, read, read_file
from lean_ops.contracts.spec import MAX_COLUMNS, RESERVED_NAMES, ColumnSpec, ContractSpec
from lean_ops.errors import ConfigError
from tests.repositories import ROOT, column, contract, repository, topic

TYPES = "one of string, int, bigint, double, boolean, decimal(p,s), date, timestamp"
FIELDS = "name, path, type, cde, nullable, default, pii, description, format"


def reading(text: str | bytes, topic_spec: TopicSpec | None = None) -> ReadContract:
    return read("c.json", text.encode() if isinstance(text, str) else text, topic_spec)


def findings(text: str | bytes, topic_spec: TopicSpec | None = None) -> list[str]:
    return [str(finding).removeprefix("c.json: ") for finding in reading(text, topic_spec).findings]


def column_finding(*columns: dict[str, Any]) -> str:
    (only,) = findings(contract(*columns))
    return only.removeprefix("/payload_columns/")


def orders(**fields: Any) -> TopicSpec:
    return TopicSpec(topic="orders", owner="o", description="d", **fields)


# ---------------------------------------------------------------- sound contracts


@pytest.mark.parametrize("name", ["events", "orders", "payments"])
def test_the_shipped_contracts_are_sound(name: str) -> None:
    here = Repository(ROOT)
    result = read_file(here, here.contract_file(name), load_topics(here).topics[name])
    assert result.findings == ()
    assert result.checked().table_name == name


def test_a_contract_says_what_its_file_says() -> None:
    text = contract(
        column("id", path="orderId", cde=True),
        column("amount", "decimal( 18, 2 )", nullable=False),
        column("seen", "timestamp", format="epoch_millis"),
    )
    spec = reading(text).checked()
    assert spec.version_numbers == (1, 0)
    assert [(c.name, c.payload_path, c.type, c.required) for c in spec.payload_columns] == [
        ("id", "orderId", "string", True),
        ("amount", "amount", "decimal(18,2)", True),
        ("seen", "seen", "timestamp", False),
    ]
    assert spec.payload_columns[0].timestamp_format == "iso8601"
    assert spec.payload_columns[2].timestamp_format == "epoch_millis"


@pytest.mark.parametrize(
    ("type_", "written", "text"),
    [
        ("decimal(18,2)", "0.10", "0.10"),
        ("decimal(38,0)", "99999999999999999999999999999999999999", "9" * 38),
        ("double", "1E5", "1E5"),
        ("bigint", "9223372036854775807", "9223372036854775807"),
        ("boolean", "false", "false"),
        ("string", '"USD"', "USD"),
        ("string", "7", "7"),
        ("date", '"2026-01-31"', "2026-01-31"),
        ("string", '""', ""),
    ],
)
def test_a_default_keeps_the_text_it_was_written_with(type_: str, written: str, text: str) -> None:
    file = contract(column("a", type_, default="@")).replace('"@"', written)
    assert reading(file).checked().payload_columns[0].default == text


@pytest.mark.parametrize("name", ["events", "orders", "payments"])
def test_a_contract_written_as_json_is_read_back_the_same(name: str) -> None:
    spec = reading((ROOT / "schemas" / name / "schema.json").read_bytes()).checked()
    again = spec.model_dump_json(by_alias=True)
    assert reading(again).checked() == spec
    assert ContractSpec.model_validate_json(again) == spec


# ---------------------------------------------------------------- single faults


@pytest.mark.parametrize(
    ("faulty", "expected"),
    [
        (column("a", "strng"), f"0/type: found 'strng'; expected {TYPES}. Did you mean 'string'?"),
        (column("a", "long"), f"0/type: found 'long'; expected {TYPES}."),
        (
            column("a", "decimal(39,2)"),
            "0/type: found 'decimal(39,2)'; expected decimal(p,s) with 1 <= p <= 38",
        ),
        (
            column("a", "decimal(2,3)"),
            "0/type: found 'decimal(2,3)'; expected decimal(p,s) with 1 <= p <= 38",
        ),
        ({"name": "a", "type": 5}, "0/type: found 5; expected text."),
        ({"name": "a", "type": None}, "0/type: found nothing; expected text."),
        ({"name": "a"}, "0/type: found nothing; expected a value: this key is required."),
        ({"type": "int"}, "0/name: found nothing; expected a value: this key is required."),
        (column("a", pth="b"), f"0/pth: found an unknown key; expected {FIELDS}. Did you mean 'path'?"),
        (column("a", **{"x/y~z": 1}), "0/x~1y~0z: found an unknown key;"),
        (
            column("userId"),
            (
                "0/name: found 'userId'; expected 1 to 255 lower-case letters, digits and underscores, "
                "a letter first. Did you mean 'user_id'?"
            ),
        ),
        (column("_a"), "0/name: found '_a'; expected 1 to 255 lower-case letters"),
        (column("a" * 256), "0/name: found 'aaaa"),
        (column('a"; drop'), "0/name: found 'a\"; drop'; expected 1 to 255 lower-case letters"),
        (column("a", path="b..c"), "0/path: found 'b..c'; expected keys joined by dots, none of them empty"),
        (column("a", path=""), "0/path: found ''; expected keys joined by dots"),
        (column("a", path=5), "0/path: found 5; expected text."),
        (column("a", cde="yes"), "0/cde: found 'yes'; expected true or false."),
        (column("a", cde=1), "0/cde: found 1; expected true or false."),
        (
            column("a", cde=True, nullable=True),
            "0/nullable: found true on a critical data element; expected false",
        ),
        (
            column("a", cde=True, default="x"),
            "0/default: found 'x'; expected none: a critical data element must",
        ),
        (
            column("a", "int", pii=True),
            "0/type: found 'int' on a PII column; expected 'string': a PII column",
        ),
        (column("a", pii=True, default="x"), "0/default: found a default on a PII column; expected none:"),
        (
            column("a", "timestamp", format="epoch"),
            "0/format: found 'epoch'; expected 'iso8601', 'epoch_seconds'",
        ),
        (
            column("a", "date", format="iso8601"),
            "0/format: found 'iso8601' on type date; expected a format only",
        ),
        (column("a", description="d" * 2001), "0/description: found 'ddd"),
        (column("a", default=["x"]), "0/default: found ['x']; expected text."),
        (column("a", default={"x": 1}), "0/default: found {'x': 1}; expected text."),
    ],
)
def test_a_fault_inside_a_column_is_named_with_its_pointer(faulty: dict[str, Any], expected: str) -> None:
    assert column_finding(faulty).startswith(expected)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_name_that_lean_ops_uses_itself_is_refused(name: str) -> None:
    expected = f"0/name: found {name!r}; expected a name that lean-ops does not use itself."
    assert column_finding(column(name)) == expected


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", "1.0"), ("int", 2147483648), ("bigint", "9223372036854775808"), ("int", "x"), ("int", ""),
        ("double", "NaN"), ("double", "1,5"), ("boolean", "yes"), ("boolean", 1), ("decimal(4,2)", "0.105"),
        ("decimal(4,2)", 100), ("date", "2026-02-30"), ("date", "31.01.2026"), ("timestamp", "2026-01-31"),
        ("timestamp", "2026-01-31T00:00:00"), ("timestamp", 1769860800),
    ],
)  # fmt: skip
def test_a_default_that_is_no_value_of_its_type_is_refused(type_: str, default: Any) -> None:
    found = column_finding(column("a", type_, default=default))
    assert found.startswith("0/default: found '")
    assert found.endswith(f"'; expected text that is exactly of type {type_}.")


def test_a_default_is_checked_against_the_format_of_its_timestamp() -> None:
    seconds = column("a", "timestamp", format="epoch_seconds", default="1769860800")
    assert findings(contract(seconds)) == []
    assert column_finding(seconds | {"format": "epoch_millis"}).startswith("0/default: found '1769860800'")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            [column("a"), column("b"), column("a", path="x")],
            ["2/name: found 'a'; expected a name not used by /payload_columns/0."],
        ),
        ([column("a"), column("a")], ["1/name: found 'a'; expected a name not used by /payload_columns/0."]),
        (
            [column("a", path="x.y"), column("b", path="x.y")],
            ["1/path: found 'x.y'; expected a path not used by /payload_columns/0."],
        ),
        (
            [column("x"), column("b", path="x")],
            ["1/path: found 'x'; expected a path not used by /payload_columns/0."],
        ),
        (
            [column("b", path="x"), column("x")],
            ["1/name: found 'x'; expected a path not used by /payload_columns/0."],
        ),
        (
            [column("a", path="x.y.z"), column("b", path="x")],
            [
                (
                    "0/path: found 'x.y.z'; expected a path that is not inside that of /payload_columns/1: "
                    "a value has no keys."
                )
            ],
        ),
        # These only look alike: a dot inside a key, another case, a longer key.
        ([column("a", path=r"x\.y"), column("b", path="x.y")], []),
        ([column("a", path="x.Y"), column("b", path="x.y")], []),
        ([column("a", path="x"), column("b", path="xy.z")], []),
    ],
)
def test_columns_that_collide_are_refused(columns: list[dict[str, Any]], expected: list[str]) -> None:
    assert findings(contract(*columns)) == [f"/payload_columns/{fault}" for fault in expected]


ENVELOPE = ["message_id", "idempotency_key", "publish_time", "period_reference"]
KNOWN = "'idempotency_key', 'message_id', 'publish_time', 'period_reference', 'ingestion_ts' or 'topic_name'"


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        (
            [*ENVELOPE, "ingestion_t"],
            [f"/4: found 'ingestion_t'; expected {KNOWN}. Did you mean 'ingestion_ts'?"],
        ),
        ([*ENVELOPE, 5], [f"/4: found 5; expected {KNOWN}."]),
        ([*ENVELOPE, ["a"]], [f"/4: found ['a']; expected {KNOWN}."]),
        ([*ENVELOPE, "message_id"], ["/4: found 'message_id' a second time; expected each column once."]),
        (
            ["message_id", "publish_time"],
            [": found no idempotency_key, period_reference; expected idempotency_key, message_id,"],
        ),
        ("message_id", [": found 'message_id'; expected a list."]),
        ({"message_id": "x"}, [": found {'message_id': 'x'}; expected a list."]),
        (None, [": found nothing; expected a list."]),
    ],
)
def test_a_fault_of_the_envelope_is_named(envelope: Any, expected: list[str]) -> None:
    found = findings(contract(column("a"), envelope_columns=envelope))
    assert len(found) == len(expected)
    for fault, opening in zip(found, expected, strict=True):
        assert fault.startswith(f"/envelope_columns{opening}")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": "1"}, "/version: found '1'; expected major.minor, such as '1.0'."),
        ({"version": "v1.0"}, "/version: found 'v1.0'; expected major.minor"),
        ({"version": "1.0.0"}, "/version: found '1.0.0'; expected major.minor"),
        ({"version": "01.0"}, "/version: found '01.0'; expected major.minor"),
        ({"version": "1.\u0663"}, "/version: found '1.\u0663'; expected major.minor"),
        ({"version": "1.0\n"}, "/version: found '1.0\\n'; expected major.minor"),
        ({"version": 1.0}, "/version: found 1.0; expected text."),
        ({"version": 2}, "/version: found 2; expected text."),
        ({"table_name": "Orders"}, "/table_name: found 'Orders'; expected 1 to 48 lower-case letters"),
        (
            {"table_name": "errors"},
            "/table_name: found 'errors'; expected a name other than the shared tables",
        ),
        ({"description": 1.5}, "/description: found 1.5; expected text."),
        ({"payload_columns": {}}, "/payload_columns: found {}; expected a list."),
        ({"payload_columns": [5]}, f"/payload_columns/0: found 5; expected keys and values: {FIELDS}."),
        ({"payload_columns": [None]}, "/payload_columns/0: found nothing; expected keys and values:"),
        (
            {"payload_colums": []},
            (
                "/payload_colums: found an unknown key; expected $schema, table_name, version, description, "
                "envelope_columns, payload_columns. Did you mean 'payload_columns'?"
            ),
        ),
        ({"editor_schema": "x"}, "/editor_schema: found an unknown key; expected $schema,"),
    ],
)
def test_a_fault_outside_the_columns_is_named(fields: dict[str, Any], expected: str) -> None:
    (only,) = findings(contract(column("a"), **fields))
    assert only.startswith(expected)


def test_an_empty_object_misses_everything_that_is_required() -> None:
    assert [finding.key for finding in reading("{}").findings] == [
        "/envelope_columns", "/payload_columns", "/table_name", "/version",
    ]  # fmt: skip


# ---------------------------------------------------------------- with its topic


def test_a_contract_belongs_to_the_topic_of_its_folder() -> None:
    assert findings(contract(column("a"), table_name="order"), orders()) == [
        "/table_name: found 'order'; expected 'orders', the topic of this folder."
    ]


@pytest.mark.parametrize("key", ["idempotency_key", "period_reference"])
def test_a_key_cannot_be_hidden_by_a_hash(key: str) -> None:
    spec = orders(keys=KeysSpec(**{key: "customer.id"}))
    assert findings(contract(column("a", path="customer.id", pii=True)), spec) == [
        (
            "/payload_columns/0/pii: found true on a key of the topic; "
            "expected false: the key itself stands in the envelope, in clear."
        )
    ]
    assert findings(contract(column("a", path="customer.name", pii=True)), spec) == []


@pytest.mark.parametrize("columns", [[column("other", "int")], [column("amount")], []])
def test_a_total_needs_a_numeric_column(columns: list[dict[str, Any]]) -> None:
    assert findings(contract(*columns), orders(totals=("amount",))) == [
        (
            "/payload_columns: found no numeric column for 'amount'; "
            "expected one: topics/orders.yaml sums it (totals)."
        )
    ]


def test_one_fault_is_not_blamed_a_second_time_on_the_topic() -> None:
    (only,) = findings(contract(column("amount", "decimal(18;2)")), orders(totals=("amount",)))
    assert only.startswith("/payload_columns/0/type: found 'decimal(18;2)'")


@pytest.mark.parametrize(
    ("columns", "place"),
    [
        ([column("a", "timestmp", format="epoch_millis")], "0/type"),
        ([column("a", "timestamp", format="epoch", default="1769860800")], "0/format"),
        ([column("a", "intt", default="x")], "0/type"),
        ([column("a", path=5), column("b", path="a")], "0/path"),
        ([column("a", path="x..y"), column("b", path="a.c")], "0/path"),
    ],
)
def test_what_follows_from_a_fault_is_not_another_one(columns: list[dict[str, Any]], place: str) -> None:
    assert column_finding(*columns).startswith(f"{place}: found ")


def test_a_contract_without_a_topic_is_an_orphan(tmp_path: Path) -> None:
    here = repository(
        tmp_path,
        {
            "topics/orders.yaml": topic("orders"),
            "schemas/order/schema.json": contract(column("a"), version=1),
        },
    )
    result = read_file(here, here.contract_file("order"))
    assert [str(finding) for finding in result.findings] == [
        "schemas/order/schema.json: /version: found 1; expected text.",
        (
            "schemas/order/schema.json: (whole file): found no topic 'order'; "
            "expected topics/order.yaml beside it. Did you mean 'orders'?"
        ),
    ]
    with pytest.raises(ConfigError, match="2 findings"):
        result.checked()


def test_a_folder_in_place_of_a_contract_is_a_finding(tmp_path: Path) -> None:
    here = repository(tmp_path, {"topics/orders.yaml": topic("orders")})
    here.contract_file("orders").mkdir(parents=True)
    (only,) = read_file(here, here.contract_file("orders")).findings
    assert only.found == "something that is not a file"


# ---------------------------------------------------------------- all at once


def test_faults_of_every_kind_come_out_at_once_and_each_of_them_once() -> None:
    text = contract(
        column("a", "strng", default="1"),
        column("b", "decimal(40,2)"),
        column("a", path="a2"),
        column("c", path="d.e"),
        column("f", path="d"),
        column("message_id"),
        column("g", "int", default="x"),
        column("h", cde=True, nullable=True),
        column("i", path="key", pii=True),
        column("j", descripton="typo"),
        column("k", "date", format="epoch_seconds"),
        version="1",
        table_name="order",
        envelope_columns=["mesage_id", "idempotency_key", "publish_time", "period_reference"],
    ).replace('"name": "k"', '"name": "k", "name": "k"')
    found = reading(text, orders(keys=KeysSpec(idempotency_key="key"), totals=("sum",))).findings
    assert sorted(finding.key for finding in found) == sorted(
        [
            "/payload_columns/0/type",
            "/payload_columns/1/type",
            "/payload_columns/2/name",
            "/payload_columns/3/path",
            "/payload_columns/5/name",
            "/payload_columns/6/default",
            "/payload_columns/7/nullable",
            "/payload_columns/8/pii",
            "/payload_columns/9/descripton",
            "/payload_columns/10/format",
            "/payload_columns/10/name",
            "/version",
            "/table_name",
            "/envelope_columns",
            "/envelope_columns/0",
        ]
    )


# ---------------------------------------------------------------- files that are no contract


def test_every_repeated_key_is_named_with_its_pointer() -> None:
    text = contract(column("a", "int"), column("b", "int"))
    text = text.replace('"name": "a"', '"name": "a", "type": "int"').replace(
        '"name": "b"', '"name": "b", "name": "c"'
    )
    text = text.replace('"version": "1.0"', '"version": "1.0", "version": "2.0"')
    assert findings(text) == [
        "/payload_columns/0/type: found the key a second time; expected each key once.",
        "/payload_columns/1/name: found the key a second time; expected each key once.",
        "/version: found the key a second time; expected each key once.",
    ]


def test_a_repeated_key_is_named_however_much_was_repeated_below_it() -> None:
    text = contract(column("a")).replace('"version": "1.0"', '"version": "1.0", "version": {"a": 1, "a": 2}')
    assert findings(text) == ["/version: found the key a second time; expected each key once."]


SOUND = contract(column("a", default="@"))


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"", 1, "broken JSON (Expecting value, column 1)"),
        (b'{\n  "a" 1\n}', 2, "broken JSON (Expecting ':' delimiter, column 7)"),
        (b"{'a': 1}", 1, "broken JSON ("),
        (b"// comment\n{}", 1, "broken JSON ("),
        (b"{} {}", 1, "broken JSON (Extra data, column 4)"),
        (b'{"a": 01}', 1, "broken JSON ("),
        (b'{"a": "\n"}', 1, "broken JSON (Invalid control character at"),
        (b"\xef\xbb\xbf{}", 1, "broken JSON (Unexpected UTF-8 BOM"),
        (b"[]", 0, "no JSON object at the top"),
        (b'"text"', 0, "no JSON object at the top"),
        (b"1.5", 0, "no JSON object at the top"),
        (b"null", 0, "no JSON object at the top"),
        (b'{"a": NaN}', 0, "NaN, which is not JSON"),
        (b'{"a": [-Infinity]}', 0, "-Infinity, which is not JSON"),
        (b'{"a": "\xff"}', 0, "a byte that is not UTF-8 at offset 7"),
        ('{"a": 1}'.encode("utf-16"), 0, "a byte that is not UTF-8 at offset 0"),
        (b'{"a": "\\ud800"}', 0, "half of a surrogate pair"),
        (b'{"\\uDFFF": 1}', 0, "half of a surrogate pair"),
        pytest.param(b" " * (MAX_BYTES + 1), 0, f"more than {MAX_BYTES} bytes", id="too large"),
        pytest.param(b"[" * MAX_BYTES, 0, f"more than {MAX_DEPTH} levels", id="brackets"),
        pytest.param(b'{"a":' * 100_000, 0, f"more than {MAX_DEPTH} levels", id="objects"),
        pytest.param(
            b'{"a":' * 900 + b"1" + b"}" * 900, 0, f"more than {MAX_DEPTH} levels", id="closed objects"
        ),
        pytest.param(
            SOUND.replace('"@"', "[" * 300 + "]" * 300).encode(),
            0,
            f"more than {MAX_DEPTH} levels",
            id="deep default",
        ),
    ],
)
def test_what_is_no_json_object_says_why_and_where(content: bytes, line: int, found: str) -> None:
    result = reading(content)
    (only,) = result.findings
    assert (only.line, only.key) == (line, "")
    assert only.found.startswith(found)
    assert only.expected == "one JSON object, in UTF-8"
    assert result.contract is None


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert reading(SOUND.replace("@", r"\ud83d\ude00")).checked().payload_columns[0].default == "😀"


def test_ten_thousand_columns_are_too_many_and_their_faults_are_still_named() -> None:
    columns = [column(f"c{n}") for n in range(9_999)] + [column("last", "strng")]
    assert [finding.key for finding in reading(contract(*columns)).findings] == [
        "/payload_columns", "/payload_columns/9999/type",
    ]  # fmt: skip
    assert findings(contract(*(column(f"c{n}") for n in range(MAX_COLUMNS)))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*ColumnSpec.model_fields, *ContractSpec.model_fields]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["table_name", "version", "envelope_columns", "payload_columns", "$schema"]))
def test_no_value_in_any_place_raises(value: Any, place: str) -> None:
    result = reading(contract(column("a"), **{place: value}), orders(totals=("a",)))
    assert (result.contract is None) == bool(result.findings)


@given(st.lists(JSON, max_size=4))
def test_no_column_raises(columns: list[Any]) -> None:
    result = reading(contract(*columns), orders(totals=("a",)))
    assert (result.contract is None) == bool(result.findings)


@given(st.binary(max_size=100) | st.text(alphabet='{}[]",:0tfn\\u ', max_size=40).map(str.encode))
def test_no_content_at_all_raises(content: bytes) -> None:
    assert reading(content).findings
