"""The suite's own promises: optional tools, sockets, warnings."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from pytest_socket import SocketBlockedError

CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text()


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with our conftest, whose one test needs a tool."""
    pytester.makeini("[pytest]\nmarkers = needs(tool): an optional tool")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("import pytest\n@pytest.mark.needs('go')\ndef test_it(): pass")
    return pytester


def provide(tool: str, folder: Path) -> None:
    command = folder / tool
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)


def test_a_test_without_its_tool_is_skipped_and_says_which(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(suite.path))
    monkeypatch.delenv("CI", raising=False)
    result = suite.runpytest("-ra")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs go (none of go is on PATH)"])


def test_a_test_without_its_tool_fails_in_ci(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(suite.path))
    monkeypatch.setenv("CI", "true")
    suite.runpytest().assert_outcomes(errors=1)


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_test_with_its_tool_runs(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    provide("go", suite.path)
    monkeypatch.setenv("PATH", str(suite.path))
    monkeypatch.setenv("CI", ci)
    suite.runpytest().assert_outcomes(passed=1)


def test_tests_on_the_shared_spark_session_run_on_one_worker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = spark: a Spark session")
    pytester.makeconftest(CONFTEST)
    test = """
        import pytest, pathlib
        @pytest.mark.spark
        @pytest.mark.parametrize("n", range(8))
        def test_it(n, worker_id):
            pathlib.Path(f"ran-on-{worker_id}").touch()
    """
    pytester.makepyfile(test_one=test, test_two=test)
    pytester.runpytest_subprocess("-n2", "--dist=loadgroup").assert_outcomes(passed=16)
    assert len(list(pytester.path.glob("ran-on-*"))) == 1


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_unit_tests_cannot_open_a_network_socket() -> None:
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET)


@pytest.mark.parametrize("module", ["lean_ops", "lean_ops.naming", "spark_jobs.curate", "local.aws_emulator"])
def test_a_warning_in_our_own_code_is_an_error(module: str) -> None:
    with pytest.raises(DeprecationWarning):
        exec("import warnings; warnings.warn('old', DeprecationWarning)", {"__name__": module})  # noqa: S102
