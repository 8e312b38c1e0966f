"""`lean-ops local`: the stack on this machine. Its code is the room `local/`, which runs as its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lean_ops.cli import options, output

if TYPE_CHECKING:
    from lean_ops.runtime import Runtime

app = typer.Typer(help="The stack on this machine: AWS emulated on loopback.", no_args_is_help=True)

# Everything the stack keeps: only these are ever removed from a home folder.
DATA = (
    "airflow",
    "catalog.db",
    "catalog.db-journal",
    "emulation",
    "keys",
    "emulator.state",
    "emulator.tmp",
    "emulator.unreadable",
    "firehose",
    "logs",
    "postgres",
    "spark.sock",
    "stack.json",
    "stack.lock",
    "warehouse",
)
_END_SECONDS = 60.0


@app.command()
def up(
    detach: Annotated[bool, typer.Option("--detach", help="Return once everything is ready.")] = False,
    port: Annotated[
        list[str] | None, typer.Option(help="A fixed port, as aws=4566; a free one by default.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, as buffer_seconds=5.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="With a warm Spark process for jobs.")] = False,
    airflow: Annotated[bool, typer.Option("--airflow", help="With Airflow, and Spark for its jobs.")] = False,
    traffic: Annotated[
        bool, typer.Option("--traffic", help="With contracts in force and a few messages a second.")
    ] = False,
    root: options.Root = None,
    env: options.Env = "local",
) -> None:
    """Start the stack. It runs until Ctrl-C, or until `lean-ops local down`."""
    runtime = emulated(root, env)
    repository = options.repository(root)
    command = [sys.executable, "-m", "local", "--root", str(repository.root), "--env", env]
    command += [f"--port={pair}" for pair in port or ()] + [f"--set={pair}" for pair in setting or ()]
    command += ["--with=spark"] * spark + ["--with=airflow"] * airflow + ["--with=traffic"] * traffic
    if detach:
        _detach(runtime, command)
    else:
        os.execv(sys.executable, command)  # noqa: S606 (no shell wanted)


@app.command()
def down(root: options.Root = None, env: options.Env = "local") -> None:
    """Stop the stack; the lake, the queues and the state stay."""
    from lean_ops.aws.clients import find_stack, is_locked

    home = emulated(root, env).home
    stack = find_stack(home)
    # The lock, not the number: after a reboot another process may have it.
    if stack is None or not is_locked(home):
        output.talk(f"no stack is running in {home}")
        return
    os.kill(stack.pid, signal.SIGTERM)
    if not _ended(home):
        from lean_ops.errors import LeanOpsError

        raise LeanOpsError(
            f"the stack (process {stack.pid}) still runs after {_END_SECONDS:.0f} s",
            next_step=f"kill -9 {stack.pid}",
        )
    output.talk(f"stopped the stack in {home}")


@app.command()
def status(root: options.Root = None, env: options.Env = "local", as_json: options.Json = False) -> None:
    """Say what runs where, and what is on its way. Exit code 1 when nothing runs."""
    from lean_ops.aws.backlog import gauge
    from lean_ops.aws.clients import local_stack

    runtime = emulated(root, env)
    stack, backlog = local_stack(runtime), gauge(runtime)()
    if as_json:
        facts: dict[str, Any] = {"environment": env, "home": str(runtime.home), "pid": stack.pid}
        queues = {depth.queue: depth.total for depth in backlog.queues}
        facts |= {"endpoints": stack.endpoints, "children": stack.children, "queues": queues}
        output.data(facts | {"buffered_bytes": backlog.buffered_bytes})
        return
    output.line(f"{env} in {runtime.home}, process {stack.pid}")
    for name, pid in stack.children.items():
        output.line(f"  {name:<9} process {pid:<8} {stack.endpoints.get(name, '')}")
    for text in backlog.stuck() or ["nothing on its way"]:
        output.line(f"  {text}")


@app.command()
def drain(
    timeout: Annotated[float, typer.Option(help="Give up after so many seconds without progress.")] = 60.0,
    root: options.Root = None,
    env: options.Env = "local",
    as_json: options.Json = False,
) -> None:
    """Wait until queues and buffers are empty. Says what is stuck otherwise, with exit code 1."""
    from lean_ops.aws import backlog

    left = backlog.drain(backlog.gauge(emulated(root, env)), patience_seconds=timeout)
    if as_json:
        output.data({"drained": left.total == 0, "stuck": left.stuck()})
    else:
        output.line("drained" if not left.total else "stuck:\n  " + "\n  ".join(left.stuck()))
    raise typer.Exit(output.FINDINGS if left.total else output.FINE)


@app.command()
def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    root: options.Root = None,
    env: options.Env = "local",
) -> None:
    """Remove the lake, the queues and all state of this home folder."""
    from lean_ops.errors import UsageError

    home = emulated(root, env).home
    _require_down(home)
    present = [home / name for name in DATA if (home / name).exists()]
    if not yes and not sys.stdin.isatty():
        raise UsageError(
            f"{home} would lose all its data, and nobody can be asked here", next_step="add --yes"
        )
    if not yes:
        typer.confirm(f"Remove {', '.join(path.name for path in present)} from {home}?", abort=True, err=True)
    output.talk(f"removed {remove(home)} entries from {home}")


def remove(home: Path, keep: Collection[str] = ()) -> int:
    """Remove the data of a stack that is down; returns how many entries there were."""
    import shutil

    _require_down(home)
    present = [home / name for name in DATA if name not in keep and (home / name).exists()]
    for path in present:
        if path.is_dir():
            shutil.rmtree(path.resolve())  # a database may be kept elsewhere, behind a link
        path.unlink(missing_ok=True)
    return len(present)


def _require_down(home: Path) -> None:
    from lean_ops.aws.clients import is_locked
    from lean_ops.errors import LeanOpsError

    if is_locked(home):
        raise LeanOpsError(f"a stack is running in {home}", next_step="lean-ops local down")


def emulated(root: Path | None, env: str) -> Runtime:
    """The runtime of an environment that has a local stack."""
    from lean_ops.errors import LeanOpsError

    runtime = options.runtime(root, env)
    if not runtime.environment.emulated:
        raise LeanOpsError(
            f"the environment {env!r} is on AWS: it has no local stack", next_step="--env local"
        )
    return runtime


def _detach(runtime: Runtime, command: list[str]) -> None:
    from lean_ops.aws.clients import find_stack
    from lean_ops.errors import LeanOpsError

    present = find_stack(runtime.home)
    if present is not None:  # the supervisor would refuse, but its log would replace that of the running one
        raise LeanOpsError(
            f"another stack runs in {runtime.home} (process {present.pid})", next_step="lean-ops local down"
        )
    logs = runtime.home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log_file = logs / "supervisor.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 (our own module)
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _await_ready(runtime.home, process)
    except KeyboardInterrupt:  # whoever gives up waiting wants no stack that comes up all the same
        process.terminate()
        process.wait()
        raise
    output.talk(log_file.read_text("utf-8").rstrip())
    if process.returncode:
        raise typer.Exit(output.FINDINGS)


def _await_ready(home: Path, process: subprocess.Popen[bytes]) -> None:
    """Return once the stack stands, or once its process has ended."""
    from lean_ops.aws.clients import find_stack

    while process.poll() is None:
        stack = find_stack(home)
        if stack is not None and stack.pid == process.pid:
            return
        time.sleep(0.1)


def _ended(home: Path) -> bool:
    from lean_ops.aws.clients import is_locked

    deadline = time.monotonic() + _END_SECONDS
    while is_locked(home):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
