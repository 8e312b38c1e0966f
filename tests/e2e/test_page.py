"""What `make up` shows in a browser: a log-in, the topics' DAGs, and why a gate was closed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lean_ops.aws.clients import find_stack
from tests.conftest import TOOLS
from tests.e2e.stack import LocalStack, wait_until
from tests.e2e.test_stack_life import processes

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.stack,
    pytest.mark.needs("browser"),
    pytest.mark.timeout(900),
]
PATIENCE_MILLISECONDS = 180_000
# Where to keep a picture of the DAGs: `docs/images/airflow.png` is one.
PICTURE = "LEAN_OPS_PICTURE"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    """What `make up` starts; Ctrl-C ends it, and all of it."""
    stack = LocalStack(tmp_path)
    process = stack.foreground("local", "up", "--airflow", "--traffic")
    try:
        wait_until(lambda: find_stack(tmp_path) or process.poll() is not None, seconds=600)
        assert process.poll() is None
        yield stack
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)
    assert not processes(tmp_path)


@pytest.fixture
def page(stack: LocalStack) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 (without a browser the test is skipped)

    browser_file = next(filter(None, map(shutil.which, TOOLS["browser"])))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        yield page
        browser.close()


def test_the_page_shows_the_topics_and_why_a_gate_was_closed(stack: LocalStack, page: Page) -> None:
    url = stack.facts.endpoint("airflow")
    secrets = json.loads((stack.home / "airflow" / "secrets.json").read_text())
    page.goto(f"{url}/dags?tags=topic")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", secrets["password"])
    page.click("button[type=submit]")

    dags = page.locator("a[href^='/dags/topic__']", has_text="topic__")
    wait_until(lambda: dags.count() == 3, seconds=180)
    assert sorted(dags.all_inner_texts()) == ["topic__events", "topic__orders", "topic__payments"]

    page.goto(f"{url}/dags/topic__payments/runs")
    page.locator("a[href*='/dags/topic__payments/runs/']").first.click()
    page.locator("a[href*='/runs/'][href$='/tasks/schema_gate']").first.click()
    page.get_by_text("no schema: no contract is in force").first.wait_for()

    if PICTURE in os.environ:
        page.goto(f"{url}/dags?tags=topic")
        page.get_by_text("topic__orders").first.wait_for()
        page.locator("a[href*='/dags/topic__orders/runs/']").first.wait_for()
        page.screenshot(path=os.environ[PICTURE])
