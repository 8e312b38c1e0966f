"""What every tier shares: optional tools, and the tests that share one Spark session."""

from __future__ import annotations

import os
import shutil

import hypothesis
import pytest

# How long one example takes says more about the machine than about the code.
hypothesis.settings.register_profile("lean-ops", deadline=None)
hypothesis.settings.load_profile("lean-ops")

pytest_plugins = ["pytester"]

# An optional tool, and the commands any one of which provides it. `.ci/run` installs those that tests need.
TOOLS = {
    "browser": ("chromium", "chromium-browser", "google-chrome"),
    "go": ("go",),
    "prometheus": ("prometheus",),
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A missing optional tool skips the test, visibly; in CI, where nothing may be skipped, it fails it."""
    for tool in (name for mark in item.iter_markers("needs") for name in mark.args):
        if not any(shutil.which(command) for command in TOOLS[tool]):
            reason = f"needs {tool} (none of {', '.join(TOOLS[tool])} is on PATH)"
            if os.environ.get("CI"):
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the shared Spark session go to one worker: a second session costs more than it saves.

    First, because xdist reads the group in the same hook.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
