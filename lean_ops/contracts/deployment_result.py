"""What a deployment came to, in words for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from lean_ops.config.specs import Spec
from lean_ops.contracts import deployment
from lean_ops.contracts.deployment import DeploymentPlan, Facts
from lean_ops.contracts.effect import ContractEffect

Outcome = Literal["nothing", "unchanged", "activated", "rejected"]


class DeploymentResult(Spec):
    """The last outcome, and what it means. `implies` is stated, never started."""

    topic: str
    outcome: Outcome
    version: str | None
    classification: str = ""
    differences: tuple[dict[str, Any], ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    needs: tuple[str, ...] = ()
    implies: tuple[str, ...] = ()
    # Of a plan only, and only when stored records were asked.
    effect: ContractEffect | None = None


def summary(topic: str, facts: Facts, done: Sequence[DeploymentPlan]) -> DeploymentResult:
    """What the rounds came to; the last one that activated or refused something tells it."""
    version = facts.registered.version if facts.registered else None
    telling = [plan for plan in done if plan.rejects or plan.steps == deployment.FINISH]
    if not telling:
        return DeploymentResult(topic=topic, outcome="unchanged" if done else "nothing", version=version)
    return described(topic, version, telling[-1])


def described(topic: str, version: str | None, plan: DeploymentPlan) -> DeploymentResult:
    """One plan as a result."""
    return DeploymentResult(
        topic=topic,
        outcome=_outcome(plan),
        version=version,
        classification=plan.classification,
        differences=tuple(each.as_dict() for each in plan.comparison.differences) if plan.comparison else (),
        findings=tuple(finding.as_dict() for finding in plan.findings),
        needs=plan.needs,
        implies=() if plan.rejects else tuple(deployment.implications(plan)),
    )


def _outcome(plan: DeploymentPlan) -> Outcome:
    if plan.rejects:
        return "rejected"
    if plan.steps == deployment.SETTLE:
        return "unchanged"
    return "activated" if plan.steps else "nothing"
