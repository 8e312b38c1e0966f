"""How a refused contract is told: a report for whoever wrote it, an alert for whoever watches."""

from __future__ import annotations

from typing import Any

from lean_ops.config.findings import clipped, printable
from lean_ops.contracts.deployment import DeploymentPlan

_ALERTED_FINDINGS = 10
_LINE = 300


def report(topic: str, plan: DeploymentPlan, by: str) -> dict[str, Any]:
    """failed/error.json: every fault with its JSON pointer and what is expected there."""
    comparison = plan.comparison
    return {
        "topic": topic,
        "sha256": plan.file.sha256 if plan.file else "",
        "deployed_by": by,
        "findings": [finding.as_dict() for finding in plan.findings],
        "differences": [each.as_dict() for each in comparison.differences] if comparison else [],
        "needs": list(plan.needs),
    }


def one_line(plan: DeploymentPlan) -> str:
    """The first fault, and how many more there are."""
    first, *others = plan.findings
    more = f" (and {len(others)} more)" if others else ""
    return clipped(f"{first.key or 'the file'}: found {first.found}; expected {first.expected}", _LINE) + more


def alert(topic: str, plan: DeploymentPlan, place: str) -> tuple[str, str]:
    """Subject and text. A file under review never steers a terminal, nor a subject line."""
    lines = [str(finding) for finding in plan.findings[:_ALERTED_FINDINGS]]
    if len(plan.findings) > _ALERTED_FINDINGS:
        lines.append(f"… and {len(plan.findings) - _ALERTED_FINDINGS} more")
    text = "\n".join(
        [f"{place} was refused; the contract in force, if any, stays in force.", *lines, *plan.needs]
    )
    name = printable(clipped(topic, 48)).encode("ascii", "backslashreplace").decode()
    return f"lean-ops: the contract of {name} was refused", text
