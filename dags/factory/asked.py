"""What a manual run may ask for: typed parameters, which a scheduled run leaves at their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict

from lean_ops.gates import Asked, AskedHop


@cache
def params() -> ParamsDict:
    """The form of a topic's DAG, the same for all of them: checked once, and never changed."""
    found = ParamsDict(
        {
            "force": Param(False, type="boolean", description="Run although nothing is new."),
            "hop": Param("all", enum=list(get_args(AskedHop)), description="Only one of the hops."),
            "until_snapshot": Param(
                None, type=["null", "integer"], description="Read the first hop's source up to this snapshot."
            ),
        }
    )
    found.validate()
    return found


def asked_by(given: Mapping[str, Any]) -> Asked:
    """What the run's parameters ask of the gates."""
    return Asked(force=given["force"], hop=given["hop"])
