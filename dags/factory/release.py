"""What this Airflow process runs: the repository around this file, in the environment that a variable names.

A release puts `dags/`, `lean_ops/`, `topics/` and `environments/` side by side. Reading them touches no network.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from lean_ops import runtime as runtimes
from lean_ops.config.repository import Repository, find_root
from lean_ops.runtime import Runtime

ENVIRONMENT_NAME = "LEAN_OPS_ENV"
ROOT = "LEAN_OPS_ROOT"


@cache
def repository() -> Repository:
    """The reviewed data that this process builds its DAGs from."""
    root = os.environ.get(ROOT)
    return Repository(Path(root) if root else find_root(Path(__file__).resolve().parent))


@cache
def runtime() -> Runtime:
    """The environment that this process works in."""
    return runtimes.from_repository(repository(), os.environ.get(ENVIRONMENT_NAME, "local"), os.environ)
