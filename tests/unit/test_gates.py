"""A gate opens for work and nothing else, and a closed one says why in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lean_ops.batch.batch_plan import SourceRange
from lean_ops.batch.next_batch import (
    Decision,
    Finish,
    NothingNew,
    Read,
    Refused,
    Replay,
    SourceSnapshot,
    Volume,
)
from lean_ops.contracts.registry import RegistryEntry, Status
from lean_ops.gates import Asked, HopFacts, TopicFacts, curated_gate, hop_gate, schema_gate
from tests.batch_plans import plan_of

RANGE = SourceRange(start_snapshot=1, end_snapshot=2, reason="incremental")
NEWS = HopFacts(Read(RANGE))
NOTHING = HopFacts(NothingNew())
HELD = replace(NEWS, held="CdeSpikeError: 40 of 100 records")
ENTRY = RegistryEntry(
    topic="orders",
    declaration="{}",
    processing_enabled=True,
    status=Status.READY,
    updated_at=datetime(2026, 11, 18, tzinfo=UTC),
    version="1.0",
)


def facts(
    standardize: HopFacts = NOTHING, curate: HopFacts | None = NOTHING, entry: RegistryEntry | None = ENTRY
) -> TopicFacts:
    return TopicFacts("orders", entry, standardize, curate)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"processing_enabled": False, "version": None}, "no schema"),
        ({"processing_enabled": False, "version": None, "error": "column id is gone"}, "column id is gone"),
        ({"processing_enabled": False}, "processing is disabled for contract 1.0"),
        ({"maintenance": True, "maintenance_reason": "moving house"}, "maintenance mode: moving house"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_what_registry_or_people_forbid_closes_both_gates_even_to_force(
    changes: dict[str, Any], word: str, force: bool
) -> None:
    forbidden = facts(NEWS, NEWS, replace(ENTRY, **changes))
    for gate in (schema_gate(forbidden, Asked(force)), curated_gate(forbidden, Asked(force))):
        assert not gate.open
        assert word in gate.reason


def test_a_topic_nobody_onboarded_says_the_command_that_does() -> None:
    gate = schema_gate(facts(NEWS, None, None), Asked())
    assert not gate.open
    assert "lean-ops topics onboard orders" in gate.reason


@pytest.mark.parametrize(
    ("decision", "word"),
    [
        (Read(RANGE), "up to snapshot 2"),
        (Finish(plan_of(RANGE)), "batch standardize-orders-1-2 is open"),
        (Replay(plan_of(RANGE)), "batch standardize-orders-1-2 is open"),
        (Refused(SourceSnapshot(7, 6, "delete", Volume())), "snapshot 7"),
    ],
)
def test_new_rows_an_open_plan_and_a_strange_snapshot_are_work(decision: Decision, word: str) -> None:
    gate = hop_gate(HopFacts(decision), Asked())
    assert gate.open
    assert word in gate.reason


@pytest.mark.parametrize(
    ("standardize", "curate", "opens"),
    [(NOTHING, NOTHING, False), (NEWS, NOTHING, True), (NOTHING, NEWS, True), (NOTHING, None, False)],
)
def test_the_first_gate_opens_when_any_hop_is_behind(
    standardize: HopFacts, curate: HopFacts | None, opens: bool
) -> None:
    gate = schema_gate(facts(standardize, curate), Asked())
    assert gate.open is opens
    assert opens or gate.reason == "no new data"


def test_a_held_hop_stays_closed_even_to_force_and_does_not_hold_the_other() -> None:
    assert not schema_gate(facts(HELD, NOTHING), Asked(force=False)).open
    assert not hop_gate(HELD, Asked(force=True)).open
    assert "CdeSpikeError" in curated_gate(facts(NOTHING, HELD), Asked()).reason
    assert schema_gate(facts(NEWS, HELD), Asked()).open


def test_force_opens_where_nothing_is_new() -> None:
    assert schema_gate(facts(), Asked(force=True)).open
    assert curated_gate(facts(), Asked(force=True)).open


def test_only_the_hop_that_was_asked_for_counts() -> None:
    assert not schema_gate(facts(NEWS, NOTHING), Asked(hop="curate")).open
    assert schema_gate(facts(NOTHING, NEWS), Asked(hop="curate")).open
    assert (
        curated_gate(facts(NEWS, NEWS), Asked(hop="standardize")).reason == "only standardize was asked for"
    )


def test_without_a_curated_contract_a_topic_ends_in_standardized() -> None:
    gate = curated_gate(facts(NEWS, None), Asked(force=True))
    assert not gate.open
    assert "no curated contract" in gate.reason
