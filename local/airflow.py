"""Airflow on this machine: its settings, its secrets, and its processes as children of the stack."""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from local import postgres
from local.children import ChildSpec, listens

USER = "admin"


@dataclass(frozen=True)
class LocalAirflow:
    """One Airflow with one user, reachable from this machine only."""

    home: Path
    root: Path
    environment: str
    port: int

    @property
    def folder(self) -> Path:
        return self.home / "airflow"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def secrets(self) -> dict[str, str]:
        """Made once per home folder; the passwords file is the one that Airflow reads."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "secrets.json"
        if not file.exists():
            made = {name: secrets.token_urlsafe(24) for name in ("password", "api", "jwt", "fernet")}
            _write_private(file, json.dumps(made))
        kept: dict[str, str] = json.loads(file.read_text("utf-8"))
        _write_private(self._passwords, json.dumps({USER: kept["password"]}))
        return kept

    @property
    def _passwords(self) -> Path:
        return self.folder / "passwords.json"

    def variables(self) -> dict[str, str]:
        """What every process of Airflow, and so every task, finds in its environment."""
        return {
            "AIRFLOW_HOME": str(self.folder),
            "LEAN_OPS_ENV": self.environment,
            "LEAN_OPS_ROOT": str(self.root),
            "AIRFLOW__API__BASE_URL": self.endpoint,
            "AIRFLOW__API__SECRET_KEY": self.secrets["api"],
            "AIRFLOW__API_AUTH__JWT_SECRET": self.secrets["jwt"],
            "AIRFLOW__CORE__AUTH_MANAGER": (
                "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
            ),
            "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).resolve().parents[1] / "dags"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.endpoint}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres.url(self.home),
            "AIRFLOW__SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE": "200",
            "AIRFLOW__SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP": "200",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "DO_NOT_TRACK": "1",  # plugins that tell their makers who uses them
        }

    def children(self) -> tuple[ChildSpec, ...]:
        """The database first, then its schema, then everybody else at once; the scheduler comes apart."""
        base, socket = postgres.folder(self.home), postgres.socket_file(self.home)
        web = ("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1")
        return (
            ChildSpec(
                "postgres",
                (sys.executable, "-m", "local.postgres", str(self.home)),
                socket.exists,
                stop_signal=signal.SIGINT,
                death_signal=signal.SIGINT,
            ),
            ChildSpec(
                "airflow-setup",
                (sys.executable, "-m", "local.airflow_setup", str(base)),
                step=True,
                ready_seconds=300,
            ),
            _airflow("dag-processor"),
            # Its log server would listen on every interface; the API server reads the files instead.
            _airflow("triggerer", "--skip-serve-logs"),
            _airflow("api-server", *web, ready=listens(self.port)),
        )

    def scheduler(self) -> ChildSpec:
        """A task that starts before there is an API to talk to fails, and a job before Spark is warm is a slow one."""
        command = _command("scheduler", "--skip-serve-logs")
        return ChildSpec("airflow-scheduler", command, after_all=True)


def _airflow(name: str, *arguments: str, ready: Callable[[], bool] = lambda: True) -> ChildSpec:
    return ChildSpec(f"airflow-{name}", _command(name, *arguments), ready, at_once=True, ready_seconds=180)


def _command(*words: str) -> tuple[str, ...]:
    return sys.executable, "-m", "airflow", *words


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")
