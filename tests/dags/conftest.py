"""DAG tests: Airflow without a scheduler, AWS emulated on loopback, the lake as files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.repositories import ROOT

# Before anything imports Airflow: it reads its settings, and writes to its home folder, while it is imported.
_HOME = tempfile.mkdtemp(prefix="lean-ops-airflow-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": _HOME,
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
    "DO_NOT_TRACK": "1",
}

from tests.dags.world import World, a_world  # noqa: E402
from tests.local.conftest import Emulator, an_emulator  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker: importing Airflow and migrating its database costs more than the tests."""
    for item in items:
        if "tests/dags" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("airflow"))


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """A migrated database, which `dag.test` keeps its runs in."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with an_emulator(tmp_path_factory.mktemp("emulator")) as running:
        yield running


@pytest.fixture
def world(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return a_world(emulator, tmp_path, monkeypatch)
