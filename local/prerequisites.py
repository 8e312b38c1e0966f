"""What the stack needs of the machine, asked before anything starts: one clear line instead of a child's last words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lean_ops.errors import LeanOpsError

FREE_GB = 1.0
_FULL_BYTES = 16 * 1024**2


def require(
    home: Path, variables: Mapping[str, str] = os.environ, *, spark: bool, needed_gb: float = FREE_GB
) -> None:
    """Room on the disk; Java, if there is to be Spark."""
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free / 1024**3
    if free < needed_gb:
        raise LeanOpsError(
            f"{free:.1f} GB are free in {home}, and the stack needs {needed_gb:.0f}",
            next_step="make room, or set LEAN_OPS_HOME to a folder on another disk",
        )
    if spark and _java(variables) is None:
        raise LeanOpsError(
            "Java is missing, which Spark needs",
            next_step="install a JDK 17 or 21, or set JAVA_HOME to one; then make setup",
        )


def full_disk(home: Path) -> str:
    """What to do about a disk that is full; nothing when it is not: then it is not why something died."""
    if shutil.disk_usage(home).free > _FULL_BYTES:
        return ""
    return f"the disk of {home} is full: make room, or set LEAN_OPS_HOME to a folder on another disk"


def _java(variables: Mapping[str, str]) -> str | None:
    home = variables.get("JAVA_HOME")
    return (
        shutil.which(str(Path(home) / "bin" / "java"))
        if home
        else shutil.which("java", path=variables["PATH"])
    )
