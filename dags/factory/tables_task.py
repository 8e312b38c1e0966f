"""Creates or evolves the tables that a run writes to, under the topic's lease."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from dags.factory import release
from dags.factory.failures import told_to_airflow
from lean_ops.config.topics import TopicSpec


class EnsureTables(BaseOperator):
    """The tables as their specs and the contract in force want them. Doing it again changes nothing."""

    def __init__(self, *, topic: TopicSpec, **options: Any) -> None:
        super().__init__(**options)
        self.topic = topic

    def execute(self, context: Context) -> list[str]:
        from lean_ops.aws.topic_tables import ensure_topic_tables

        with told_to_airflow():
            owner = f"{context['run_id']}/{self.task_id}"
            return ensure_topic_tables(release.runtime(), self.topic, owner)
