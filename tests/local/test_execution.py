"""A function runs in a process of its own, whose crash costs its caller no more than an error."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys

import pytest

from lean_ops.processes import is_alive
from lean_ops.resources import FUNCTIONS, FunctionSettings
from lean_ops.runtime import Runtime
from local import execution as executions
from local.execution import Execution, FunctionError
from local.settings import SETTINGS_VARIABLE
from tests.local.conftest import wait_until
from tests.repositories import ROOT

EVENT = {"records": [{"recordId": "1", "data": base64.b64encode(b"no row").decode()}]}


@pytest.fixture
def transform(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> Execution:
    for name, value in (runtime.variables() | {"PYTHONPATH": str(ROOT)}).items():
        monkeypatch.setenv(name, value)
    return Execution("firehose_transform")


def test_the_real_handler_answers(transform: Execution) -> None:
    (answer,) = transform(EVENT)["records"]
    assert (answer["recordId"], answer["result"]) == ("1", "ProcessingFailed")


def test_an_exception_arrives_with_its_trace_and_the_environment_lives_on(transform: Execution) -> None:
    with pytest.raises(FunctionError, match="KeyError: 'records'"):
        transform({})
    assert len(transform(EVENT)["records"]) == 1


def test_a_crash_is_an_error_and_the_next_call_gets_a_new_environment(transform: Execution) -> None:
    transform(EVENT)
    os.kill(transform._process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    with pytest.raises(FunctionError, match="crashed"):
        transform(EVENT)
    assert len(transform(EVENT)["records"]) == 1


def test_crashes_can_be_ordered(transform: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, '{"crash_share": 1.0, "crash_after_seconds": 0.0}')

    def keep_calling() -> None:
        for _ in range(100):
            transform(EVENT)

    with pytest.raises(FunctionError, match="crashed"):
        keep_calling()


def test_a_function_that_takes_too_long_is_ended(
    transform: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = FunctionSettings("firehose_transform", 512, 0)
    monkeypatch.setattr(executions, "FUNCTIONS", FUNCTIONS | {impatient.name: impatient})
    with pytest.raises(FunctionError, match="timed out"):
        transform(EVENT)
    assert transform._process is None


def test_an_environment_ends_with_its_caller(runtime: Runtime) -> None:
    program = (
        "import os, signal\n"
        "from local.execution import Execution\n"
        f"execution = Execution('firehose_transform'); execution({EVENT!r})\n"
        "print(execution._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    variables = os.environ | runtime.variables() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=variables, stdout=subprocess.PIPE, check=False)
    worker = int(done.stdout.split()[-1])
    wait_until(lambda: not is_alive(worker))
