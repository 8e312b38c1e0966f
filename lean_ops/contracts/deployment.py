"""Decides what is to be done with a topic's contract files: facts in, steps out.

A deployment goes in rounds. Each is decided from the facts alone, so that a round after a crash is like any other:

    prepare    a sound file in pending/, unlike the one in active/: tables, archive, activate
    finish     a file in active/ that the registry does not name yet: tables, history, open_gate
    settle     the file in pending/ is the one in force: confirm, clear_failed, remove_pending
    reject     the file in pending/ cannot come into force: keep_failed, mark_error, alert, remove_pending

The registry names a contract only after its tables are there and it is active: what it names is the contract with
which everything new is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from lean_ops import tables
from lean_ops.config.findings import Finding, nearest, shown
from lean_ops.config.topics import KeysSpec, TopicSpec
from lean_ops.contracts.compatibility import Comparison, Impact, compare
from lean_ops.contracts.spec import ContractSpec
from lean_ops.tables import TableSpec

ROLLBACK = "rollback"
FIRST = "first"


class Step(StrEnum):
    """One effect; doing it again changes nothing."""

    TABLES = "tables"
    ARCHIVE = "archive"
    ACTIVATE = "activate"
    HISTORY = "history"
    OPEN_GATE = "open_gate"
    CONFIRM = "confirm"
    CLEAR_FAILED = "clear_failed"
    KEEP_FAILED = "keep_failed"
    MARK_ERROR = "mark_error"
    ALERT = "alert"
    REMOVE_PENDING = "remove_pending"


PREPARE = (Step.TABLES, Step.ARCHIVE, Step.ACTIVATE)
FINISH = (Step.TABLES, Step.HISTORY, Step.OPEN_GATE)
SETTLE = (Step.CONFIRM, Step.CLEAR_FAILED, Step.REMOVE_PENDING)
REJECT = (Step.KEEP_FAILED, Step.MARK_ERROR, Step.ALERT, Step.REMOVE_PENDING)
REJECT_STRANGER = (Step.KEEP_FAILED, Step.ALERT, Step.REMOVE_PENDING)


@dataclass(frozen=True)
class ContractFile:
    """A file as it was found: its contract when it is sound, else its findings."""

    file: str
    sha256: str
    contract: ContractSpec | None
    findings: tuple[Finding, ...] = ()
    is_rollback: bool = False


@dataclass(frozen=True)
class Facts:
    """All that a round is decided from. `registered` is the contract that the registry names, `keys` its keys.

    `was_in_force` tells of the pending file only: whether its very bytes are in the archive.
    """

    topic: str
    declared: TopicSpec | None
    known_topics: tuple[str, ...] = ()
    pending: ContractFile | None = None
    active: ContractFile | None = None
    registered: ContractSpec | None = None
    registered_sha256: str | None = None
    keys: KeysSpec | None = None
    was_in_force: bool = False


@dataclass(frozen=True)
class DeploymentPlan:
    """What one round does, and why. `needs` says what a refused change would ask for."""

    steps: tuple[Step, ...] = ()
    file: ContractFile | None = None
    comparison: Comparison | None = None
    classification: str = ""
    findings: tuple[Finding, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def rejects(self) -> bool:
        return bool(self.findings)


def decide(facts: Facts) -> DeploymentPlan:
    """The next round; one without steps when nothing is left to do."""
    active, pending = facts.active, facts.pending
    begun = active is not None and active.contract is not None and active.sha256 != facts.registered_sha256
    if begun and active is not None and facts.declared is not None:
        # An activation that was begun is finished before anything else is looked at: jobs may have read the file.
        return replace(_judged(facts, active, facts.declared), steps=FINISH)
    if pending is None:
        return DeploymentPlan()
    if facts.declared is None:
        return _stranger(facts, pending)
    if pending.contract is None:
        return DeploymentPlan(REJECT, pending, findings=pending.findings)
    if active is not None and pending.sha256 == active.sha256:
        return DeploymentPlan(SETTLE, pending)
    plan = _judged(facts, pending, facts.declared)
    if pending.is_rollback:
        return (
            plan if facts.was_in_force else _rejected(plan, "", "a file that was never in force", _ARCHIVED)
        )
    fault = plan.comparison.version_fault if plan.comparison else ""
    return _rejected(plan, "/version", shown(pending.contract.version), fault) if fault else plan


def refused(plan: DeploymentPlan, message: str, next_step: str) -> DeploymentPlan:
    """The plan after the tables turned out unable to take its contract: nothing was activated."""
    rejected = _rejected(plan, "", message, "a contract that the stored tables can take in place")
    return replace(rejected, needs=(*rejected.needs, *([next_step] if next_step else [])))


def implications(plan: DeploymentPlan) -> list[str]:
    """What a contract in force means for rows already stored. Stated and offered, never started."""
    if plan.comparison is None:
        waiting = "what waits in RAW is processed in bites, from the next run on"
        return [waiting] if plan.classification == FIRST else []
    implied = [
        f"{each.column or 'table'}: {each.rebuild}" for each in plan.comparison.differences if each.rebuild
    ]
    added = [each.column for each in plan.comparison.differences if each.change == "column_added"]
    if added:
        implied.append(f"{', '.join(added)}: rows stored before hold NULL until Curated is rebuilt")
    return implied


def tables_of(facts: Facts, plan: DeploymentPlan) -> tuple[TableSpec, ...]:
    """The tables of a topic under the plan's contract."""
    if facts.declared is None or plan.file is None or plan.file.contract is None:
        raise ValueError("only a declared topic with a sound contract has tables")
    partitioning = facts.declared.curated.partitioning
    return (
        tables.raw(facts.topic),
        tables.standardized(facts.topic),
        tables.curated(facts.topic, plan.file.contract, partitioning),
    )


_ARCHIVED = "one of archive/, byte for byte"


def _judged(facts: Facts, file: ContractFile, declared: TopicSpec) -> DeploymentPlan:
    """The file compared with the contract that the registry names."""
    if facts.registered is None or file.contract is None:
        return DeploymentPlan(PREPARE, file, classification=FIRST)
    keys = (facts.keys, declared.keys) if facts.keys is not None else None
    comparison = compare(facts.registered, file.contract, keys=keys)
    classification = ROLLBACK if file.is_rollback else comparison.impact.value
    return DeploymentPlan(PREPARE, file, comparison, classification)


def _stranger(facts: Facts, pending: ContractFile) -> DeploymentPlan:
    close = nearest(facts.topic, facts.known_topics)
    orphan = Finding(
        pending.file, 0, "", f"no topic {shown(facts.topic)}", "a topic that was onboarded", close
    )
    return DeploymentPlan(REJECT_STRANGER, pending, findings=(orphan, *pending.findings))


def _rejected(plan: DeploymentPlan, key: str, found: str, expected: str) -> DeploymentPlan:
    file = plan.file.file if plan.file else ""
    return replace(
        plan, steps=REJECT, findings=(Finding(file, 0, key, found, expected),), needs=_needs(plan.comparison)
    )


def _needs(comparison: Comparison | None) -> tuple[str, ...]:
    """What every breaking difference asks for, in the order of the differences."""
    if comparison is None:
        return ()
    breaking = [each for each in comparison.differences if each.impact is Impact.BREAKING]
    return tuple(
        f"{each.column or 'table'}: {each.change} ({each.detail}): {each.rebuild}" for each in breaking
    )
