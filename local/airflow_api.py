"""Airflow's own API, as its page uses it: log in, start runs, see what became of them."""

from __future__ import annotations

import json
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from lean_ops.errors import LeanOpsError
from local.airflow import USER

_POLL_SECONDS = 0.5
# Loopback never goes through a proxy, whatever the variables say.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class AirflowApi:
    """The Airflow of a running stack."""

    def __init__(self, endpoint: str, home: Path) -> None:
        self._endpoint, self._token = endpoint, ""
        secrets = json.loads((home / "airflow" / "secrets.json").read_text("utf-8"))
        login = {"username": USER, "password": secrets["password"]}
        self._token = self.ask("/auth/token", login)["access_token"]

    def trigger(self, dag: str, run: str, patience_seconds: float = 180.0) -> None:
        """Start a run. Right after the start of Airflow a DAG may not have been parsed yet: it is waited for."""
        deadline = time.monotonic() + patience_seconds
        asked = {"dag_run_id": run, "logical_date": datetime.now(UTC).isoformat()}
        while True:
            try:
                self.ask(f"/api/v2/dags/{dag}/dagRuns", asked)
            except HTTPError as error:
                if error.code != 404 or time.monotonic() > deadline:
                    raise LeanOpsError(
                        f"Airflow does not start {dag}: {error}", next_step=f"see {self._endpoint}/dags/{dag}"
                    ) from error
                time.sleep(_POLL_SECONDS)
            else:
                return

    def wait(self, dag: str, run: str, patience_seconds: float) -> None:
        """Until a run has succeeded; a failed one is an error that names its task."""
        deadline = time.monotonic() + patience_seconds
        page = f"{self._endpoint}/dags/{dag}/runs/{quote(run)}"
        while (state := self.ask(self._run(dag, run))["state"]) != "success":
            if state == "failed":
                failed = [task for task, how in self.tasks(dag, run).items() if how == "failed"]
                raise LeanOpsError(f"{dag} failed in {', '.join(failed)}", next_step=f"see {page}")
            if time.monotonic() > deadline:
                raise LeanOpsError(
                    f"{dag} is {state} after {patience_seconds:.0f} s", next_step=f"see {page}"
                )
            time.sleep(_POLL_SECONDS)

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        """The state of every task of a run."""
        found = self.ask(f"{self._run(dag, run)}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in found}

    def runs(self, dag: str) -> list[str]:
        """The newest runs that are over."""
        found = self.ask(f"/api/v2/dags/{dag}/dagRuns?limit=100&order_by=-run_after")["dag_runs"]
        return [run["dag_run_id"] for run in found if run["state"] in ("success", "failed")]

    def gate(self, dag: str, run: str, task: str = "schema_gate") -> str:
        """Why a gate was open or closed, in its own words."""
        entry = f"{self._run(dag, run)}/taskInstances/{task}/xcomEntries/gate?deserialize=true"
        value = self.ask(entry)["value"]
        return str((json.loads(value) if isinstance(value, str) else value)["reason"])

    def _run(self, dag: str, run: str) -> str:
        return f"/api/v2/dags/{dag}/dagRuns/{quote(run)}"

    def ask(self, path: str, content: dict[str, Any] | None = None) -> Any:
        """The answer to a GET, or to a POST when there is content."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._endpoint + path, body, headers)  # noqa: S310 (loopback)
        with _direct.open(request, timeout=60) as answer:
            return json.load(answer)
