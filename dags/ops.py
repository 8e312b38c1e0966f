"""The operators' DAGs, all of them: they are few."""

from __future__ import annotations

from airflow.sdk import get_parsing_context

from dags.factory import release
from dags.factory.ops_dags import ops_dags

wanted = get_parsing_context().dag_id

for dag in ops_dags(release.runtime().environment):
    if wanted in (None, dag.dag_id):
        globals()[dag.dag_id] = dag
