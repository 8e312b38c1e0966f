"""Every test of the functions has an AWS of its own, inside the process: no socket is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_socket import disable_socket, enable_socket

from tests.lambdas.world import World, a_world


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch) as made:
        yield made
