"""The three lists of packages agree: pyproject's lock, Airflow's constraints, and what MWAA installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
CONSTRAINTS = LOCKS / "airflow-3.2.1-constraints.txt"
REQUIREMENTS = ROOT / "requirements.txt"
LISTS = [REQUIREMENTS, *sorted(LOCKS.glob("*.txt"))]

# What the image of MWAA is built from.
MWAA_IMAGE = ("apache-airflow[celery,statsd]", "apache-airflow-providers-amazon[aiobotocore]")


def pins(path: Path) -> dict[str, str]:
    lines = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}


def dependencies(requirement: Requirement) -> Iterator[Requirement]:
    try:
        declared = requires(requirement.name) or []
    except PackageNotFoundError:  # an extra of the image that a laptop does not need, such as celery
        return
    for dependency in map(Requirement, declared):
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        if dependency.marker is None or any(map(dependency.marker.evaluate, environments)):
            yield dependency


def closure(*roots: str) -> set[str]:
    """The names of everything these requirements bring, as installed here."""
    seen: set[str] = set()
    todo = [Requirement(root) for root in roots]
    while todo:
        requirement = todo.pop()
        if str(requirement) not in seen:
            seen.add(str(requirement))
            todo.extend(dependencies(requirement))
    return {canonicalize_name(Requirement(text).name) for text in seen}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_no_list_contains_an_address(path: Path) -> None:
    assert re.findall(r"\S+://\S+", path.read_text()) == []


def test_mwaa_installs_the_versions_that_are_tested_here() -> None:
    mwaa, local = pins(REQUIREMENTS), pins(LOCKS / "local.txt")
    assert mwaa
    assert mwaa == {name: local.get(name) for name in mwaa}


@pytest.mark.parametrize("lock", ["local.txt", "cdk.txt", "dlt.txt"])
def test_a_lock_keeps_to_airflows_constraints(lock: str) -> None:
    constraints, locked = pins(CONSTRAINTS), pins(LOCKS / lock)
    shared = locked.keys() & constraints.keys()
    assert shared
    assert {name: locked[name] for name in shared} == {name: constraints[name] for name in shared}


@pytest.mark.parametrize("lock", ["cdk.txt", "dlt.txt"])
def test_a_lock_can_be_installed_beside_the_local_one(lock: str) -> None:
    local, other = pins(LOCKS / "local.txt"), pins(LOCKS / lock)
    shared = local.keys() & other.keys()
    assert shared
    assert {name: other[name] for name in shared} == {name: local[name] for name in shared}


def test_mwaa_installs_nothing_that_its_image_has_and_no_spark() -> None:
    image = closure(*MWAA_IMAGE)
    assert {"pydantic", "boto3", "jinja2", "msgspec", "pyyaml", "rich", "typer"} <= image
    assert pins(REQUIREMENTS).keys() & (image | {"pyspark", "pyspark-client"}) == set()


def test_mwaa_gets_everything_lean_ops_needs_there() -> None:
    """What `lean_ops` imports is in the image or comes with requirements.txt."""
    needed = {canonicalize_name(dependency.name) for dependency in dependencies(Requirement("lean-ops"))}
    assert needed
    assert needed <= closure(*MWAA_IMAGE, *pins(REQUIREMENTS))


def test_mwaas_constraints_file_is_the_locked_one() -> None:
    (line,) = [line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("--constraint")]
    assert line == f'--constraint "/usr/local/airflow/dags/{CONSTRAINTS.name}"'
