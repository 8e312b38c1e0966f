"""Brings the jars of a lock file into the cache: `jars.py LOCK CACHE`.

Spark's own resolver fetches them by Maven coordinate, so a mirror or proxy that is set up for Spark serves
here too. Invariant: a file gets its name in the cache only after its bytes were checked against the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

RESOLVE_SECONDS = 900


@dataclass(frozen=True)
class Jar:
    coordinate: str
    file: str
    sha256: str

    @property
    def retrieved_name(self) -> str:
        """What Spark's resolver calls the file."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group}_{artifact}-{version}.jar"


def read_lock(lock: Path) -> list[Jar]:
    lines = lock.read_text().splitlines()
    return [Jar(*line.split()) for line in lines if line and not line.startswith("#")]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing(jars: list[Jar], folder: Path) -> list[Jar]:
    """Those that are not there, or not with the locked bytes."""
    return [
        jar for jar in jars if not (folder / jar.file).is_file() or sha256(folder / jar.file) != jar.sha256
    ]


def resolve(jars: list[Jar], ivy: Path) -> None:
    """Let spark-submit fetch the jars into `ivy`/jars.

    It resolves its packages before it starts a class; Ivy's own, asked for its version, is the cheapest.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise SystemExit("jars: pyspark is not installed in this Python")
    spark_home = Path(pyspark.origin).parent
    command = [str(spark_home / "bin" / "spark-submit"), "--conf", f"spark.jars.ivy={ivy}"]
    command += ["--packages", ",".join(jar.coordinate for jar in jars)]
    command += ["--class", "org.apache.ivy.Main", "spark-internal", "-version"]
    done = subprocess.run(  # noqa: S603 - the command is ours, the coordinates are reviewed
        command,
        env={**os.environ, "SPARK_HOME": str(spark_home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RESOLVE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\njars: Spark could not resolve {command[4]}")


def publish(jars: list[Jar], retrieved: Path, folder: Path) -> None:
    for jar in jars:
        path = retrieved / jar.retrieved_name
        found = sha256(path)
        if found != jar.sha256:
            raise SystemExit(f"jars: {jar.coordinate} has sha256 {found}, the lock says {jar.sha256}")
        path.replace(folder / jar.file)


def main(lock: Path, cache: Path) -> None:
    jars = read_lock(lock)
    folder = cache / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (cache / "jars.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # clones may share the cache
        wanted = missing(jars, folder)
        if not wanted:
            return
        ivy = cache / "ivy"
        shutil.rmtree(ivy, ignore_errors=True)  # of an interrupted run: Ivy trusts what it finds
        try:
            resolve(wanted, ivy)
            publish(wanted, ivy / "jars", folder)
        finally:
            shutil.rmtree(ivy, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
