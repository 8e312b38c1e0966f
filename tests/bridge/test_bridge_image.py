"""The container file copies and installs everything the bridge imports."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name

from tests.repositories import ROOT

COPIED = re.findall(r"^COPY (\S+) \S+$", (ROOT / "bridge/Dockerfile").read_text(), re.MULTILINE)
ALLOWED = (ROOT / "bridge/Dockerfile.dockerignore").read_text().splitlines()
LOCKED = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "locks/bridge.txt").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The top-level modules that a starting bridge has imported."""
    script = (
        "import sys; before = set(sys.modules); import bridge.__main__; print(*set(sys.modules) - before)"
    )
    command = [sys.executable, "-c", script]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {module.partition(".")[0] for module in modules}


def test_everything_copied_exists_and_is_not_ignored() -> None:
    assert COPIED
    assert all((ROOT / source).exists() for source in COPIED)
    assert {f"!{source}" for source in COPIED} <= set(ALLOWED)


def test_every_room_that_is_imported_is_copied(imported: set[str]) -> None:
    rooms = {name for name in imported if (ROOT / name).is_dir()}
    assert rooms == {"bridge", "lean_ops"}
    assert rooms <= set(COPIED)


def test_every_package_that_is_imported_is_locked(imported: set[str]) -> None:
    providers = packages_distributions()
    assert {"boto3", "grpc", "prometheus_client"} <= imported
    missing = {
        name
        for name in imported - {"bridge", "lean_ops"}
        if name in providers and not {canonicalize_name(provider) for provider in providers[name]} & LOCKED
    }
    assert missing == set()
