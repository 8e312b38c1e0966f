"""The decision about a topic's contract files, from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lean_ops.config.findings import Finding
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.contracts.deployment import (
    FINISH,
    PREPARE,
    REJECT,
    REJECT_STRANGER,
    SETTLE,
    ContractFile,
    Facts,
    Step,
    decide,
    implications,
    refused,
)
from lean_ops.contracts.spec import ColumnSpec, ContractSpec

TOPIC = TopicSpec(topic="orders", owner="sales", description="Orders.")
ENVELOPE = ("idempotency_key", "message_id", "publish_time", "period_reference")


def contract(version: str, **columns: str) -> ContractSpec:
    specs = tuple(ColumnSpec(name=name, type=type_) for name, type_ in columns.items())
    return ContractSpec(
        table_name="orders", version=version, envelope_columns=ENVELOPE, payload_columns=specs
    )


def sound(spec: ContractSpec, *, is_rollback: bool = False) -> ContractFile:
    return ContractFile("file", f"sha of {spec.version} {spec.payload_columns}", spec, (), is_rollback)


V1, V1_1, V2 = contract("1.0", a="int"), contract("1.1", a="bigint", b="string"), contract("2.0", a="string")
UNSOUND = ContractFile("file", "sha of nonsense", None, (Finding("file", 0, "/version", "'x'", "a version"),))


def in_force(spec: ContractSpec | None, pending: ContractFile | None) -> Facts:
    if spec is None:
        return Facts("orders", TOPIC, pending=pending)
    active = sound(spec)
    return Facts(
        "orders", TOPIC, pending=pending, active=active, registered=spec, registered_sha256=active.sha256
    )


@pytest.mark.parametrize(
    ("facts", "steps"),
    [
        (in_force(None, None), ()),
        (in_force(V1, None), ()),
        (in_force(None, sound(V1)), PREPARE),
        (in_force(V1, sound(V1_1)), PREPARE),
        (in_force(V1, sound(V2)), PREPARE),
        (in_force(V1, sound(V1)), SETTLE),
        (in_force(V1, UNSOUND), REJECT),
        (in_force(V1_1, sound(V1)), REJECT),
        (in_force(V1, sound(contract("1.1", a="string"))), REJECT),
        (in_force(V1, sound(contract("1.0", a="int", b="int"))), REJECT),
        (replace(in_force(None, sound(V1)), declared=None), REJECT_STRANGER),
        (replace(in_force(None, None), active=sound(V1)), FINISH),
        (replace(in_force(V1, sound(V2)), active=sound(V1_1)), FINISH),
        (replace(in_force(V1, sound(V1_1)), active=UNSOUND), PREPARE),
    ],
)
def test_the_facts_decide_the_next_round(facts: Facts, steps: tuple[Step, ...]) -> None:
    assert decide(facts).steps == steps


@pytest.mark.parametrize(("was_in_force", "steps"), [(True, PREPARE), (False, REJECT)])
def test_a_rollback_takes_only_what_was_in_force(was_in_force: bool, steps: tuple[Step, ...]) -> None:
    facts = replace(in_force(V1_1, sound(V1, is_rollback=True)), was_in_force=was_in_force)
    assert decide(facts).steps == steps


def test_a_change_of_the_topics_keys_is_breaking() -> None:
    facts = replace(in_force(V1, sound(V1_1)), keys=KeysSpec(idempotency_key="id"))
    plan = decide(facts)
    assert plan.steps == REJECT
    assert "key_changed" in plan.needs[0]


def test_what_the_tables_refuse_says_what_it_would_need() -> None:
    plan = refused(decide(in_force(V1, sound(V2))), "a is int, and cannot become string", "rebuild it")
    assert (plan.steps, plan.needs[-1]) == (REJECT, "rebuild it")
    assert plan.findings[0].found == "a is int, and cannot become string"


def test_new_columns_and_rebuilds_are_stated() -> None:
    assert implications(decide(in_force(None, sound(V1)))) == [
        "what waits in RAW is processed in bites, from the next run on"
    ]
    assert implications(decide(in_force(V1, sound(V1_1)))) == [
        "b: rows stored before hold NULL until Curated is rebuilt"
    ]
    assert implications(decide(in_force(V1, sound(V1)))) == []


FILES = st.sampled_from([None, UNSOUND, *(sound(each) for each in (V1, V1_1, V2))])
CONTRACTS = st.sampled_from([None, V1, V1_1, V2])


@given(FILES, FILES, CONTRACTS, st.booleans())
def test_no_facts_open_a_gate_without_tables_nor_activate_what_is_unsound(
    pending: ContractFile | None, active: ContractFile | None, registered: ContractSpec | None, declared: bool
) -> None:
    facts = Facts(
        "orders",
        TOPIC if declared else None,
        pending=pending,
        active=active,
        registered=registered,
        registered_sha256=sound(registered).sha256 if registered else None,
    )
    plan = decide(facts)
    steps = list(plan.steps)
    for effect in (Step.OPEN_GATE, Step.ACTIVATE):
        assert effect not in steps or steps.index(Step.TABLES) < steps.index(effect)
    if Step.ACTIVATE in steps:
        assert steps.index(Step.ARCHIVE) < steps.index(Step.ACTIVATE)
    if {Step.TABLES, Step.ACTIVATE, Step.OPEN_GATE} & set(steps):
        assert declared
        assert plan.file is not None
        assert plan.file.contract is not None
        assert not plan.rejects
    assert plan.rejects == (Step.KEEP_FAILED in steps)
