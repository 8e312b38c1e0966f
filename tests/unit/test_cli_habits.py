"""What holds for every command: streams, exit codes, JSON, colour, width, speed, and no questions asked."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from lean_ops.cli import app
from tests.command_line import PROGRAM, call, clean_environment, run
from tests.repositories import ROOT, contract, repository, topic

# They print no result: what they did is known by their exit code.
WITHOUT_A_RESULT = {("local", "up"), ("local", "down"), ("local", "reset")}


def commands(
    group: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))
    else:
        yield path, group


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_takes_a_root_speaks_json_and_explains_itself(path: tuple[str, ...]) -> None:
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    assert "--root" in options
    assert "--json" in options or path in WITHOUT_A_RESULT
    assert COMMANDS[path].help


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_fits_80_columns(path: tuple[str, ...]) -> None:
    answer = call(*path, "--help")
    assert answer.code == 0
    assert answer.out.startswith(f"Usage: lean-ops {' '.join(path)}")
    assert max(map(len, answer.out.splitlines())) <= 80


@pytest.mark.parametrize("path", [(), *sorted({path[:-1] for path in COMMANDS if path[1:]})], ids=" ".join)
def test_a_list_of_commands_cuts_no_sentence_off_at_80_columns(path: tuple[str, ...]) -> None:
    assert "..." not in call(*path, "--help").out.partition("Commands:")[2]


# ---------------------------------------------------------------- streams and exit codes

READ_ONLY = [
    ("topics", "list"),
    ("topics", "validate"),
    ("schema", "validate"),
    ("schema", "diff", "schemas/orders/schema.json", "schemas/orders/schema.json"),
    ("schema", "editor-files", "--check"),
    ("doctor",),
]


@pytest.mark.parametrize("command", READ_ONLY, ids=" ".join)
def test_json_is_all_that_stands_on_stdout(command: tuple[str, ...]) -> None:
    answer = run(*command, "--json", "--root", str(ROOT), cwd=Path("/"))
    assert answer.data is not None
    assert answer.code in (0, 1)


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("topics", "validate"), ("schema", "validate")], ids=" ".join
)
def test_the_repository_is_found_upward_from_the_current_folder(command: tuple[str, ...]) -> None:
    here = run(*command, cwd=ROOT / "schemas" / "orders")
    assert here == run(*command, "--root", str(ROOT), cwd=Path("/"))
    assert here.code == 0


@pytest.mark.parametrize("command", [*READ_ONLY, ("topics", "new", "shipments")], ids=" ".join)
@pytest.mark.parametrize("how", ["by folder", "by --root", "by --root that is no folder"])
def test_outside_a_repository_a_command_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], how: str
) -> None:
    if command[:2] == ("schema", "diff") and how == "by folder":
        command = ("schema", "diff", "nowhere.json", "nowhere.json")  # needs files, not a repository
    monkeypatch.chdir(tmp_path)
    root = {
        "by folder": (),
        "by --root": ("--root", tmp_path),
        "by --root that is no folder": ("--root", "/dev/null"),
    }
    answer = call(*command, *root[how])
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("lean-ops: ")
    assert "\n  next: " in answer.err
    assert not list(tmp_path.iterdir())


def test_a_failure_is_json_too_on_request(tmp_path: Path) -> None:
    answer = call("topics", "list", "--json", "--root", tmp_path)
    assert answer.code == 2
    assert answer.data["error"] == f"--root {tmp_path}: there is no folder topics/ in it"
    assert answer.data["next_step"]
    assert answer.data["findings"] == []
    assert answer.err.startswith("lean-ops: --root")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "list"), "No such command 'topic'. Did you mean 'topics'?"),
        (("topics", "lst"), "No such command 'lst'. Did you mean 'list'?"),
        (("topics", "list", "--jsn"), "No such option: --jsn Did you mean --json?"),
        (("topics", "new"), "Missing argument 'NAME'."),
        (("schema", "diff", "one.json"), "Missing argument 'NEW'."),
        (("topics", "list", "surplus"), "Got unexpected extra argument (surplus)"),
        (("topics", "list", "--root"), "Option '--root' requires an argument."),
    ],
)
def test_a_mistyped_command_is_a_usage_error_that_says_what_was_meant(
    arguments: tuple[str, ...], said: str
) -> None:
    answer = call(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert said in answer.err


def test_findings_are_exit_code_1_and_their_absence_0(tmp_path: Path) -> None:
    repository(tmp_path, {"topics/orders.yaml": topic("orders", "lane: A\n")})
    assert call("topics", "validate", "--root", tmp_path).code == 1
    (tmp_path / "topics/orders.yaml").write_text(topic("orders"))
    assert call("topics", "validate", "--root", tmp_path).code == 0


# ---------------------------------------------------------------- no questions, no colour where none is wanted


def on_a_terminal(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code and the output of a command that believes a person is watching it on 80 columns."""
    leader, follower = pty.openpty()
    environment = clean_environment() | {"TERM": "xterm-256color", "COLUMNS": "80"} | variables
    process = subprocess.Popen(
        [PROGRAM, *arguments], cwd=ROOT, env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    output = b""
    try:
        while chunk := os.read(leader, 65536):
            output += chunk
    except OSError:  # Linux's way of saying that the other side is closed
        pass
    os.close(leader)
    return process.wait(timeout=60), output.decode()


def test_a_terminal_gets_bold_headings() -> None:
    code, output = on_a_terminal("topics", "list")
    assert code == 0
    assert "\x1b[1m" in output


def test_a_terminal_that_wants_no_colour_gets_no_escape_code() -> None:
    code, output = on_a_terminal("topics", "list", NO_COLOR="1")
    assert code == 0
    assert "payments" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    "command", [("topics", "list"), ("topics", "validate", "--help"), ("--help",)], ids=" ".join
)
def test_a_pipe_gets_no_escape_code(command: tuple[str, ...]) -> None:
    answer = run(*command, TERM="xterm-256color")
    assert answer.out
    assert "\x1b" not in answer.out + answer.err


def test_even_on_a_terminal_nothing_is_asked(tmp_path: Path) -> None:
    # Would wait for ever if it asked: nobody types.
    repository(tmp_path)
    code, output = on_a_terminal("topics", "new", "shipments", "--root", str(tmp_path))
    assert code == 0
    assert "topics/shipments.yaml" in output


# ---------------------------------------------------------------- width and encoding

LONG = "a" + "_very_long_name" * 3


def test_at_80_columns_a_table_keeps_within_them_and_loses_nothing(tmp_path: Path) -> None:
    repository(tmp_path, {f"topics/{LONG}.yaml": topic(LONG), "topics/b.yaml": topic("b")})
    answer = run("topics", "list", cwd=tmp_path, COLUMNS="80")
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "…" not in answer.out
    letters = "".join(answer.out.split())
    assert all(part in letters for part in ("platform", "15min", "iceberg_raw_db.b_staging"))


def test_in_a_pipe_a_row_is_a_line(tmp_path: Path) -> None:
    repository(tmp_path, {f"topics/{LONG}.yaml": topic(LONG)})
    heading, row = run("topics", "list", cwd=tmp_path).out.splitlines()
    assert heading.split() == ["topic", "owner", "every", "contract", "raw"]
    assert row.split() == [LONG, "platform", "15", "min", "no", f"iceberg_raw_db.{LONG}_staging"]


def test_a_stream_that_knows_ascii_only_gets_escapes_and_no_traceback(tmp_path: Path) -> None:
    for name, description in (("old", "ä"), ("new", "→")):
        (tmp_path / name).write_text(contract(description=description), encoding="utf-8")
    answer = run("schema", "diff", "old", "new", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert answer.out.startswith(r"1.0 \u2192 1.0: safe")
    assert answer.code == 1
    repository(tmp_path, {"topics/orders.yaml": topic("orders").replace("platform", "Müller")})
    listed = run("topics", "list", "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(listed.out)[0]["owner"] == "Müller"


def test_a_reader_who_leaves_early_is_no_traceback() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [PROGRAM, "topics", "list"],
        cwd=ROOT,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == b""


# ---------------------------------------------------------------- speed


def test_help_answers_within_half_a_second_of_cpu() -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--help").code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    cpu_seconds()  # writes the bytecode, once for everybody
    assert min(cpu_seconds() for _ in range(3)) < 0.5
