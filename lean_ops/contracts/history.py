"""What a contract that came into force tells the history: a row of schema_versions, and rows of drift_log.

Times and ids come from the file in active/, so that telling it again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from lean_ops.batch.outbox import OpsEvent
from lean_ops.contracts.compatibility import Difference
from lean_ops.contracts.deployment import DeploymentPlan
from lean_ops.contracts.spec import ContractSpec
from lean_ops.ops_tables import DRIFT_LOG, SCHEMA_VERSIONS

ADDED, REMOVED, TYPE_CHANGED = "ADDED", "REMOVED", "TYPE_CHANGED"
_ACTIONS = {
    "column_added": ADDED,
    "required_added": ADDED,
    "column_dropped": REMOVED,
    "type_widened": TYPE_CHANGED,
    "type_changed": TYPE_CHANGED,
}


def activation_events(topic: str, plan: DeploymentPlan, by: str, since: datetime) -> list[OpsEvent]:
    """The events of a contract that is in force since then."""
    if plan.file is None or plan.file.contract is None:
        raise ValueError("only a sound contract comes into force")
    contract, sha256 = plan.file.contract, plan.file.sha256
    comparison = plan.comparison
    # With the version before, 0 for none: S3 tells whole seconds, and within one of them events sort by their ids.
    change = f"{comparison.old_version if comparison else '0'}-{contract.version}"
    root = f"{topic}/contract/{change}/{sha256[:16]}/{since.isoformat()}"
    version = OpsEvent(
        SCHEMA_VERSIONS.name,
        {
            "event_id": root,
            "topic_name": topic,
            "changed_ts": since,
            "version": contract.version,
            "previous_version": comparison.old_version if comparison else None,
            "sha256": sha256,
            "classification": plan.classification,
            "changed_by": by,
            "diff": json.dumps([each.as_dict() for each in comparison.differences] if comparison else []),
        },
    )
    drift = _changes(comparison.differences) if comparison else _all_new(contract)
    return [version, *(_drift(version, *each) for each in drift)]


def _all_new(contract: ContractSpec) -> Iterator[tuple[str, str, str]]:
    for column in contract.payload_columns:
        yield ADDED, column.name, f"{column.type} from {column.payload_path}"


def _changes(differences: tuple[Difference, ...]) -> Iterator[tuple[str, str, str]]:
    """Every change; those that the log has no word for keep the contract's."""
    for each in differences:
        yield _ACTIONS.get(each.change, each.change.upper()), each.column, each.detail


def _drift(version: OpsEvent, action: str, column: str, detail: str) -> OpsEvent:
    before, arrow, after = detail.partition(" → ")
    return OpsEvent(
        DRIFT_LOG.name,
        {
            "event_id": f"{version.event_id}/{action}/{column}",
            "topic_name": version.values["topic_name"],
            "detected_ts": version.time,
            "column_name": column,
            "action": action,
            "source_layer": "curated",
            "old_value": before if arrow else None,
            "new_value": after if arrow else None,
            "details": json.dumps({"detail": detail}),
        },
    )
