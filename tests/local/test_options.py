"""What a person may ask of the stack, and what a slip of the pen is told."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lean_ops.errors import LeanOpsError
from local import supervisor
from local.settings import SETTINGS_VARIABLE, Settings, from_assignments, from_variables
from local.supervisor import PORTS, choose_ports
from tests.repositories import environment, repository


def test_settings_are_given_by_name_and_keep_their_types() -> None:
    assert from_assignments(["buffer_seconds=5", "visibility_seconds=2"]) == Settings(
        buffer_seconds=5.0, visibility_seconds=2
    )
    assert from_assignments([]) == Settings() == from_variables({})
    assert from_variables({SETTINGS_VARIABLE: '{"crash_share": 0.2}'}) == Settings(crash_share=0.2)


@pytest.mark.parametrize("slip", ["buffer_second=5", "visibility_seconds=soon", "buffer_seconds", "=5"])
def test_a_setting_that_does_not_exist_or_does_not_fit_is_refused_with_the_names_there_are(slip: str) -> None:
    with pytest.raises(LeanOpsError) as caught:
        from_assignments([slip])
    assert "buffer_seconds, buffer_mb" in caught.value.next_step


def test_ports_are_free_and_differ() -> None:
    ports = choose_ports([])
    assert tuple(ports) == PORTS
    assert len(set(ports.values())) == len(PORTS)


def test_a_wanted_port_is_used() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert choose_ports([f"firehose={port}"])["firehose"] == port


@pytest.mark.parametrize("slip", ["aws=x", "aws", "s3=80", ""])
def test_a_port_that_makes_no_sense_is_refused(slip: str) -> None:
    with pytest.raises(LeanOpsError, match="NAME=NUMBER"):
        choose_ports([slip])


def test_a_busy_port_is_named() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(LeanOpsError, match=rf"port {port} \(aws\) is in use"):
            choose_ports([f"aws={port}"])


def test_a_repository_with_faults_is_told_them_all_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAN_OPS_HOME", str(tmp_path / "home"))
    local = environment("local").replace("engine:\n  kind: glue", "engine:\n  kind: local")
    faulty = {"topics/orders.yaml": "topic: orders\n", "environments/local.yaml": local}
    root = repository(tmp_path, faulty).root
    assert supervisor.main(["--root", str(root), "--env", "local"]) == 1
    said = capsys.readouterr().err
    assert "topics/orders.yaml" in said
    assert {"owner", "description"} <= set(said.replace(":", " ").split())
    assert not (tmp_path / "home").exists()
