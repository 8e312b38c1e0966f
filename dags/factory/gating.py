"""The gates as tasks. A closed one skips, and its reason is in the task's log and among its XComs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from dags.factory import release
from dags.factory.asked import asked_by
from dags.factory.failures import told_to_airflow
from lean_ops import gates
from lean_ops.config.topics import TopicSpec
from lean_ops.gates import Asked, Gate, TopicFacts

GATE_KEY = "gate"


class GateTask(BaseOperator):
    """Lets a run through, or skips what comes after it."""

    ui_color = "#f4e8c1"
    decide: Callable[[TopicFacts, Asked], Gate]

    def __init__(self, *, topic: TopicSpec, **options: Any) -> None:
        super().__init__(**options)
        self.topic = topic

    def execute(self, context: Context) -> str:
        from lean_ops.aws.gate_facts import gate_reader

        with told_to_airflow():
            facts = gate_reader(release.runtime()).facts(self.topic)
        gate = type(self).decide(facts, asked_by(context["params"]))
        context["ti"].xcom_push(GATE_KEY, asdict(gate))
        if not gate.open:
            raise AirflowSkipException(gate.reason)
        self.log.info("open: %s", gate.reason)
        return gate.reason


class SchemaGate(GateTask):
    """May the topic be processed, and is there anything to do?"""

    decide = staticmethod(gates.schema_gate)


class CuratedGate(GateTask):
    """Does the topic go on to Curated, and is Standardized ahead of it?"""

    decide = staticmethod(gates.curated_gate)
