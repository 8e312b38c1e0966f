"""Set-up on a machine that lacks something says so in one line, and touches nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("bash", "cat", "cmp", "dirname", "env", "grep", "readlink")


class Machine:
    """A fresh clone, and a PATH with nothing on it but what every system has."""

    def __init__(self, folder: Path) -> None:
        self.clone, self.bin, self.home = folder / "clone", folder / "bin", folder / "home"
        for path in (self.clone, self.bin, self.home):
            path.mkdir()
        for name in ("scripts", "locks"):
            shutil.copytree(ROOT / name, self.clone / name)
        shutil.copy(ROOT / "pyproject.toml", self.clone)
        for command in NEEDED:
            (self.bin / command).symlink_to(shutil.which(command) or f"/bin/{command}")

    def command(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{self.bin}/bash\n{script}\n")
        path.chmod(0o755)
        return path

    def set_up(self, **variables: str) -> subprocess.CompletedProcess[str]:
        basic = {"PATH": str(self.bin), "HOME": str(self.home), "LEAN_OPS_JVM_DIRS": str(self.home / "jvm")}
        return subprocess.run(
            [str(self.clone / "scripts" / "bootstrap")],
            env=basic | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def untouched(self) -> bool:
        return {path.name for path in self.clone.iterdir()} == {"scripts", "locks", "pyproject.toml"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refused(result: subprocess.CompletedProcess[str], *words: str) -> bool:
    lines = result.stderr.splitlines()
    return result.returncode == 1 and len(lines) == 1 and all(word in lines[0] for word in words)


def test_without_python_it_says_how_to_get_it(machine: Machine) -> None:
    result = machine.set_up()
    assert refused(result, "Python 3.12", "is missing", "apt-get install", "brew install"), result.stderr
    assert machine.untouched()


def test_a_shim_that_fails_and_a_python_too_old_are_no_python(machine: Machine) -> None:
    machine.command(machine.bin / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    machine.command(machine.bin / "python3", "echo 3.10")
    result = machine.set_up()
    assert refused(result, "Python 3.12", "is missing"), result.stderr


def test_a_python_that_was_asked_for_is_not_replaced_by_another(machine: Machine) -> None:
    old = machine.command(machine.bin / "python3.10", "echo 3.10")
    machine.command(machine.bin / "python3.12", "echo 3.12")
    result = machine.set_up(PYTHON=str(old))
    assert refused(result, f"PYTHON={old}", "3.11, 3.12 or 3.13"), result.stderr
    assert machine.untouched()


def test_without_java_it_says_how_to_get_it(machine: Machine) -> None:
    result = machine.set_up(PYTHON=sys.executable)
    assert refused(result, "Java 17 or 21 is missing", "apt-get install", "JAVA_HOME"), result.stderr
    assert machine.untouched()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25.0.3", "170.0.1"])
def test_a_java_of_another_version_is_no_java(machine: Machine, version: str) -> None:
    home = machine.home / "jvm" / "some-jdk"
    machine.command(home / "bin" / "java", f"""echo 'openjdk version "{version}" 2024-01-16' >&2""")
    result = machine.set_up(PYTHON=sys.executable, JAVA_HOME=str(home))
    assert refused(result, "Java 17 or 21 is missing"), result.stderr


def test_python_in_pyenv_and_java_in_a_jvm_folder_are_found_though_not_on_the_path(machine: Machine) -> None:
    pyenv = machine.home / ".pyenv" / "versions" / "3.12.9" / "bin" / "python3.12"
    machine.command(pyenv, "case $2 in *ensurepip*) echo 3.12 ;; *fcntl*) ;; *) exit 7 ;; esac")
    machine.command(
        machine.home / "jvm" / "jdk" / "bin" / "java", """echo 'openjdk version "21" 2023-09-19' >&2"""
    )
    (machine.bin / "rm").symlink_to(shutil.which("rm") or "/bin/rm")
    result = machine.set_up()
    assert result.stderr.splitlines()[0] == (
        f"setup: Python 3.12 ({pyenv}), Java 21 ({machine.home / 'jvm' / 'jdk'})"
    )
    assert result.returncode == 1, "this Python cannot make a venv"
    assert "failed: .venv" in result.stderr
    assert not (machine.clone / ".venv" / "lean-ops.stamp").exists()
