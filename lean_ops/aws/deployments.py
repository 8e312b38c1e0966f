"""Deploys contracts: gathers the facts of a topic, runs the steps that they ask for, and looks again.

All of it happens under the topic's lease, so that no batch runs meanwhile and no two deployments meet. What a
process left undone when it died is found in the facts by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyiceberg.catalog import Catalog

from lean_ops import naming
from lean_ops.aws.alerts import AlertTopic
from lean_ops.aws.ddl import check_table, ensure_table
from lean_ops.aws.deployment_facts import FactReader, Reading
from lean_ops.aws.leases import Claim, Lease, Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.registry import Registry, undeclared
from lean_ops.aws.schema_folder import BY, INTENT, OvertakenError, StoredFile
from lean_ops.batch.steps import Steps
from lean_ops.config.topics import TopicSpec
from lean_ops.contracts import deployment, history, rejection
from lean_ops.contracts.deployment import DeploymentPlan, Step
from lean_ops.contracts.deployment_result import DeploymentResult, summary
from lean_ops.errors import LeanOpsError, RetryableError
from lean_ops.naming import Names

_MOST_ROUNDS = 20
# Shorter than a batch's: a deployment takes seconds, and after a kill the next one need not wait longer.
_LEASE_SECONDS = 20.0


@dataclass(frozen=True)
class Ports:
    """What a deployment touches."""

    s3: Any
    names: Names
    catalog: Catalog
    leases: Leases
    registry: Registry
    outbox: Outbox
    alerts: AlertTopic
    clock: Callable[[], datetime]


@dataclass(frozen=True)
class _Round:
    """A plan with everything that its steps need."""

    reading: Reading
    plan: DeploymentPlan
    claim: Claim | None


def deploy(
    ports: Ports, topic: str, owner: str, steps: Steps, *, requester: str = "unknown"
) -> DeploymentResult:
    """Do all that a topic's files ask for. LeaseHeldError while somebody else changes the topic's tables.

    The requester is remembered as the author of a file that does not name its own.
    """
    # A name that cannot be a topic's is nobody's lease and no key of the registry.
    known = naming.topic_name_fault(topic) is None and ports.registry.load(topic) is not None
    held = Lease(ports.leases, topic, owner, seconds=_LEASE_SECONDS) if known else nullcontext()
    with held as lease:
        if lease is not None:
            steps.guard(lease.check)
        return _Deployment(ports, topic, steps, lease, requester).run()


def preview(
    ports: Ports, declared: TopicSpec, content: bytes, *, is_rollback: bool = False
) -> DeploymentPlan:
    """What would become of a file if it were handed in for a topic that is declared like this.

    Nothing is written, and no lease is taken. The topic may be a new one: then it is onboarded first.
    """
    metadata = {INTENT: deployment.ROLLBACK} if is_rollback else {}
    pending = StoredFile(content, etag="", since=ports.clock(), metadata=metadata)
    reader = FactReader(ports.s3, ports.names, ports.registry, declared.topic)
    facts = reader.read(pending, ports.registry.load(declared.topic), declared).facts
    if facts.active is not None and facts.active.contract is not None:
        # What is active counts, even while its own deployment is being finished.
        facts = replace(facts, registered=facts.active.contract, registered_sha256=facts.active.sha256)
    plan = deployment.decide(facts)
    if plan.steps != deployment.PREPARE:
        return plan
    try:
        for spec in deployment.tables_of(facts, plan):
            check_table(ports.catalog, spec)
    except LeanOpsError as error:
        return deployment.refused(plan, str(error), error.next_step)
    return plan


class _Deployment:
    """One run for one topic."""

    def __init__(self, ports: Ports, topic: str, steps: Steps, lease: Lease | None, requester: str) -> None:
        self._ports, self._topic, self._steps, self._lease = ports, topic, steps, lease
        self._author = {BY: requester}
        self._reader = FactReader(ports.s3, ports.names, ports.registry, topic)
        self._folder = self._reader.folder

    def run(self) -> DeploymentResult:
        done: list[DeploymentPlan] = []
        for _ in range(_MOST_ROUNDS):
            with self._steps("read"):
                current = self._gather()
            if not current.plan.steps:
                return summary(self._topic, current.reading.facts, done)
            try:
                done.append(self._perform(current))
            except OvertakenError:
                continue
        raise RetryableError(f"the contract files of {self._topic} do not come to rest", topic=self._topic)

    def _perform(self, current: _Round) -> DeploymentPlan:
        for step in current.plan.steps:
            with self._steps(step.value):
                try:
                    _EFFECTS[step](self, current)
                except RetryableError:
                    raise
                except LeanOpsError as error:
                    if step is not Step.TABLES:
                        raise
                    return self._unfit(current, error)
        return current.plan

    def _unfit(self, current: _Round, error: LeanOpsError) -> DeploymentPlan:
        """The tables cannot take the contract: refuse it, or pass by what somebody put into active/."""
        if current.plan.steps == deployment.FINISH:
            if current.reading.pending is None or current.plan.file is None:
                raise error
            self._reader.refuse(current.plan.file)
            return DeploymentPlan()
        plan = deployment.refused(current.plan, str(error), error.next_step)
        return self._perform(replace(current, plan=plan))

    def _gather(self) -> _Round:
        pending = self._folder.read("pending")
        if pending is not None:
            pending = replace(pending, metadata=self._author | dict(pending.metadata))
        entry = self._ports.registry.load(self._topic) if self._lease else None
        reading = self._reader.read(pending, entry, entry.declared if entry else None)
        return _Round(reading, deployment.decide(reading.facts), self._lease.claim if self._lease else None)

    # ------------------------------------------------------------------ the effects, one per step

    def _tables(self, current: _Round) -> None:
        specs = deployment.tables_of(current.reading.facts, current.plan)
        for spec in specs:
            check_table(self._ports.catalog, spec)
        for spec in specs:
            ensure_table(self._ports.catalog, spec)

    def _archive(self, current: _Round) -> None:
        stored, active = current.reading.active, current.reading.facts.active
        if stored is not None and active is not None:
            self._folder.archive(stored, active.contract.version if active.contract else "unsound")

    def _activate(self, current: _Round) -> None:
        self._folder.activate(_pending(current), current.reading.active)

    def _history(self, current: _Round) -> None:
        active = current.reading.active
        if active is not None:
            events = history.activation_events(self._topic, current.plan, active.by, active.since)
            self._ports.outbox.add(events)

    def _open_gate(self, current: _Round) -> None:
        file, declared = current.plan.file, current.reading.facts.declared
        if file is None or file.contract is None or declared is None or current.claim is None:
            raise undeclared(self._topic)
        now = self._ports.clock()
        self._ports.registry.activate(current.claim, file.contract.version, file.sha256, declared.keys, now)

    def _confirm(self, current: _Round) -> None:
        if current.claim is not None:
            self._ports.registry.confirm(current.claim, self._ports.clock())

    def _clear_failed(self, _current: _Round) -> None:
        self._folder.clear_failed()

    def _keep_failed(self, current: _Round) -> None:
        pending = _pending(current)
        self._folder.keep_failed(pending, rejection.report(self._topic, current.plan, pending.by))

    def _mark_error(self, current: _Round) -> None:
        if current.claim is not None:
            text = rejection.one_line(current.plan)
            self._ports.registry.reject(current.claim, text, self._ports.clock())

    def _alert(self, current: _Round) -> None:
        self._ports.alerts.publish(
            *rejection.alert(self._topic, current.plan, self._folder.address("failed"))
        )

    def _remove_pending(self, current: _Round) -> None:
        self._folder.remove_pending(_pending(current).etag)


_EFFECTS: dict[Step, Callable[[_Deployment, _Round], None]] = {
    step: getattr(_Deployment, f"_{step.value}") for step in Step
}


def _pending(current: _Round) -> StoredFile:
    if current.reading.pending is None:
        raise ValueError("a step that needs a pending file")
    return current.reading.pending
