"""Unit tests have no network: whoever opens a socket has left the unit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket


@pytest.fixture(autouse=True)
def no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)  # asyncio's own wake-up pipe is one
    yield
    enable_socket()
