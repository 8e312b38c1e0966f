"""The registry: what gates read, and who may write it when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lean_ops.aws.leases import LeaseLostError, Leases
from lean_ops.aws.registry import Registry, Status
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.errors import LeanOpsError, NotFoundError
from lean_ops.naming import Names

NOW = datetime(2026, 11, 18, 12, 0, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
KEYS = KeysSpec(idempotency_key="id")
ORDERS = TopicSpec(topic="orders", owner="sales", description="Orders.", keys=KEYS)


@pytest.fixture
def leases(dynamodb: Any, names: Names) -> Leases:
    return Leases(dynamodb, names)


@pytest.fixture
def registry(dynamodb: Any, names: Names) -> Registry:
    declared = Registry(dynamodb, names)
    declared.declare(ORDERS, NOW)
    return declared


def test_a_declared_topic_waits_for_its_contract_with_its_gate_closed(registry: Registry) -> None:
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.status, entry.open, entry.version, entry.declared) == (
        Status.NO_SCHEMA,
        False,
        None,
        ORDERS,
    )
    assert registry.load("payments") is None
    assert [each.topic for each in registry.all()] == ["orders"]


def test_declaring_again_changes_the_declaration_and_nothing_else(registry: Registry, leases: Leases) -> None:
    registry.activate(leases.acquire("orders", "me", 60, 0), "1.0", "hash", KEYS, NOW)
    before = registry.load("orders")
    registry.declare(ORDERS, LATER)
    assert registry.load("orders") == before
    registry.declare(ORDERS.model_copy(update={"owner": "logistics"}), LATER)
    after = registry.load("orders")
    assert after is not None
    assert (after.open, after.version, after.declared.owner) == (True, "1.0", "logistics")


def test_an_activation_opens_the_gate_and_a_refusal_leaves_it_open(
    registry: Registry, leases: Leases
) -> None:
    claim = leases.acquire("orders", "me", 60, 0)
    registry.activate(claim, "1.0", "hash", KEYS, NOW)
    registry.reject(claim, "2 findings", LATER)
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.status, entry.error, entry.updated_at) == (Status.ERROR, "2 findings", LATER)
    assert (entry.open, entry.version, entry.sha256, entry.keys) == (True, "1.0", "hash", KEYS)
    registry.confirm(claim, LATER)
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.status, entry.error) == (Status.READY, "")


def test_a_first_contract_that_is_refused_leaves_the_gate_closed(registry: Registry, leases: Leases) -> None:
    registry.reject(leases.acquire("orders", "me", 60, 0), "not JSON", NOW)
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.status, entry.processing_enabled) == (Status.ERROR, False)


def test_who_lost_the_lease_writes_nothing(registry: Registry, leases: Leases) -> None:
    zombie = leases.acquire("orders", "zombie", 60, 0)
    leases.acquire("orders", "heir", 60, 100_000)
    before = registry.load("orders")
    with pytest.raises(LeaseLostError):
        registry.activate(zombie, "1.0", "hash", KEYS, NOW)
    with pytest.raises(LeaseLostError):
        registry.reject(zombie, "late", NOW)
    assert registry.load("orders") == before


def test_an_undeclared_topic_cannot_be_opened_nor_paused(registry: Registry, leases: Leases) -> None:
    with pytest.raises(NotFoundError) as caught:
        registry.activate(leases.acquire("payments", "me", 60, 0), "1.0", "hash", KEYS, NOW)
    assert caught.value.next_step == "lean-ops topics onboard payments"
    with pytest.raises(NotFoundError, match="nobody has onboarded it"):
        registry.pause("payments", "why", "ann", NOW)
    assert registry.load("payments") is None


def test_a_pause_holds_through_an_activation_until_it_is_ended(registry: Registry, leases: Leases) -> None:
    registry.pause("orders", "the source is being migrated", "ann", NOW)
    registry.activate(leases.acquire("orders", "me", 60, 0), "1.0", "hash", KEYS, LATER)
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.processing_enabled, entry.maintenance, entry.open) == (True, True, False)
    assert (entry.maintenance_reason, entry.maintenance_since) == ("the source is being migrated", NOW)
    registry.resume("orders", "migrated", "bob", LATER)
    entry = registry.load("orders")
    assert entry is not None
    assert (entry.open, entry.maintenance_reason) == (True, "migrated")


def test_nobody_pauses_over_the_reason_of_another(registry: Registry) -> None:
    registry.pause("orders", "mine", "ann", NOW)
    registry.pause("orders", "mine", "ann", NOW)
    with pytest.raises(LeanOpsError, match=r"is paused by ann since .*: mine"):
        registry.pause("orders", "also mine", "bob", LATER)
    registry.resume("orders", "done", "ann", LATER)
    with pytest.raises(LeanOpsError, match="is not paused"):
        registry.resume("orders", "done", "bob", LATER)


def test_errors_asked_for_by_a_newer_contract_are_not_forgotten(registry: Registry, leases: Leases) -> None:
    claim = leases.acquire("orders", "me", 60, 0)
    registry.activate(claim, "1.0", "hash", KEYS, NOW)
    registry.activate(claim, "1.1", "other", KEYS, LATER)
    assert not registry.revalidated("orders", "1.0")
    assert getattr(registry.load("orders"), "revalidate_errors", None) == "1.1"
    assert registry.revalidated("orders", "1.1")
    assert getattr(registry.load("orders"), "revalidate_errors", None) is None
