"""import-linter only sees what it is told of: no room may be forgotten."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

# No room: tests, measurements and set-up may use everything, and `build` is not ours to read.
OUTSIDE = {"benchmarks", "build", "scripts", "tests"}


def test_every_room_with_code_is_inside_the_walls() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    with_code = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/**/*.py")}
    assert with_code - OUTSIDE == set(settings["root_packages"])


def test_every_room_has_a_contract_about_frameworks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    held = {
        room
        for contract in settings["contracts"]
        if contract["type"] == "forbidden" and "airflow" in contract["forbidden_modules"]
        for room in contract["source_modules"]
    }
    unheld = set(settings["root_packages"]) - held
    assert unheld <= {"dags", "plugins"}, "only these two may import Airflow"
