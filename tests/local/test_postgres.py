"""A database has its name only once it is whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from local import postgres


def initdb(folder: Path, code: int) -> Path:
    """Stands for the program that is cut off after it has written what looks like a database."""
    program = folder / "initdb"
    program.write_text(
        f'#!/bin/sh\nfor last; do :; done\nmkdir "$last" && touch "$last/PG_VERSION"\nexit {code}\n'
    )
    program.chmod(0o755)
    return folder


def test_a_database_that_was_cut_off_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with pytest.raises(subprocess.CalledProcessError):
        postgres._make(initdb(tmp_path, code=1), data)
    assert not data.exists()
    postgres._make(initdb(tmp_path, code=0), data)
    assert (data / "PG_VERSION").exists()
