"""One DAG per topic file. The start of a task parses this file again, for its own DAG only."""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from dags.factory import release
from dags.factory.topic_dag import build_topic_dag
from lean_ops.config.repository import load_topics
from lean_ops.naming import dag_id

wanted = get_parsing_context().dag_id
only = wanted.removeprefix(dag_id("")) if wanted else None

# What is wrong with a topic's file is told by broken_topics.py: a file with an import error schedules no DAG.
for _, topic in sorted(load_topics(release.repository(), only).topics.items()):
    globals()[dag_id(topic.topic)] = build_topic_dag(topic, release.runtime().environment)
