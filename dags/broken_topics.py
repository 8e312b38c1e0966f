"""Makes broken topic files visible: an import error of this file names each one's file, line and fix.

It has no DAG (Airflow's own would not be scheduled either), so that all the other topics run on.
"""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from dags.factory import release
from lean_ops.config.repository import load_topics

if get_parsing_context().dag_id is None:
    load_topics(release.repository()).checked()
