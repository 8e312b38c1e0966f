"""The contract in force is found with its hash, an earlier one by the hash that a plan pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from lean_ops.aws.schema_store import SchemaStore
from lean_ops.errors import ConfigError, NotFoundError
from lean_ops.naming import Names
from tests.repositories import column, contract

Put = Callable[[str, str], str]


@pytest.fixture
def store(s3: Any, names: Names) -> SchemaStore:
    return SchemaStore(s3, names)


@pytest.fixture
def put(s3: Any, names: Names) -> Put:
    """Puts an object under schemas/; returns its hash."""

    def write(key: str, text: str) -> str:
        s3.put_object(Bucket=names.ops_bucket, Key=f"schemas/{key}", Body=text.encode())
        return hashlib.sha256(text.encode()).hexdigest()

    return write


def of_version(version: str, name: str = "order_id") -> str:
    return contract(column(name), version=version)


def test_the_active_contract_comes_with_the_hash_of_its_bytes(store: SchemaStore, put: Put) -> None:
    sha256 = put("orders/active/schema.json", of_version("1.0"))
    stored = store.active("orders")
    assert (stored.contract.version, stored.sha256) == ("1.0", sha256)
    assert stored.key == "schemas/orders/active/schema.json"


def test_a_topic_without_an_active_contract_is_told_what_to_do(store: SchemaStore, put: Put) -> None:
    put("orders_old/active/schema.json", of_version("1.0"))
    with pytest.raises(
        NotFoundError, match="topic 'orders' has no active contract: there is no s3://"
    ) as caught:
        store.active("orders")
    assert caught.value.next_step == "lean-ops schema deploy orders"


def test_a_broken_contract_names_every_fault_and_the_object(
    store: SchemaStore, put: Put, names: Names
) -> None:
    put("orders/active/schema.json", contract(column("id", "strin"), column("ID"), version="one"))
    with pytest.raises(ConfigError) as caught:
        store.active("orders")
    assert {finding.file for finding in caught.value.findings} == {
        f"s3://{names.ops_bucket}/schemas/orders/active/schema.json"
    }
    assert len(caught.value.findings) >= 3


def test_archived_contracts_are_listed_by_version_as_numbers(store: SchemaStore, put: Put) -> None:
    for name in ("1.10-20260301T000000Z", "1.9-20260201T000000Z", "2.0-20260401T000000Z"):
        put(f"orders/archive/{name}.json", of_version("1.0"))
    put("orders/archive/readme.txt", "")
    assert [key.rpartition("/")[2].partition("-")[0] for key in store.archived("orders")] == [
        "1.9",
        "1.10",
        "2.0",
    ]
    assert store.archived("payments") == []


def test_a_plan_finds_its_contract_after_a_newer_one_came_into_force(store: SchemaStore, put: Put) -> None:
    old = put("orders/archive/1.0-20260101T000000Z.json", of_version("1.0"))
    put("orders/archive/1.0-20260201T000000Z.json", of_version("1.0", "other"))
    put("orders/archive/1.0-20251201T000000Z.json", "no contract at all")
    new = put("orders/active/schema.json", of_version("1.1"))
    assert store.pinned("orders", "1.1", new).key == "schemas/orders/active/schema.json"
    assert store.pinned("orders", "1.0", old).contract.payload_columns[0].name == "order_id"


def test_the_last_contract_of_a_version_is_found_by_the_version(store: SchemaStore, put: Put) -> None:
    put("orders/archive/1.0-20260101T000000Z.json", of_version("1.0"))
    put("orders/archive/1.0-20260201T000000Z.json", of_version("1.0", "later"))
    put("orders/active/schema.json", of_version("1.1"))
    assert store.of_version("orders", "1.0").payload_columns[0].name == "later"
    assert store.of_version("orders", "1.1").version == "1.1"
    with pytest.raises(NotFoundError, match=r"contract 1\.2 of topic 'orders'"):
        store.of_version("orders", "1.2")


def test_a_plan_never_gets_another_contract_of_the_same_version(store: SchemaStore, put: Put) -> None:
    put("orders/active/schema.json", of_version("1.0", "other"))
    put("orders/archive/1.0-20260101T000000Z.json", of_version("1.0", "another"))
    with pytest.raises(NotFoundError, match=r"contract 1\.0 of topic 'orders'"):
        store.pinned("orders", "1.0", hashlib.sha256(of_version("1.0").encode()).hexdigest())


def test_more_archived_contracts_than_a_page_holds_are_all_found(
    store: SchemaStore, s3: Any, put: Put
) -> None:
    def two_a_page(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return params | {"MaxKeys": 2}

    s3.meta.events.register("provide-client-params.s3.ListObjectsV2", two_a_page)
    for number in range(5):
        put(f"orders/archive/1.{number}-x.json", "")
    assert len(store.archived("orders")) == 5
