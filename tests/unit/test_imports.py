"""The domain is light: importing it brings no framework, no AWS and no Spark into a process."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.repositories import ROOT

HEAVY = {"airflow", "aws_cdk", "boto3", "botocore", "duckdb", "google", "moto", "pyspark"}


def domain_modules() -> list[str]:
    """Every module of lean_ops but those that speak to AWS or to a terminal."""
    paths = (path.relative_to(ROOT) for path in (ROOT / "lean_ops").rglob("*.py"))
    rooms = {"aws", "cli"}
    return sorted(
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if path.parts[1] not in rooms
    )


def imported_by(statement: str) -> set[str]:
    """The top-level modules that a fresh process has after a statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_importing_lean_ops_imports_nothing_but_itself() -> None:
    modules = imported_by("import lean_ops")
    assert not modules & (HEAVY | {"pydantic", "yaml", "typer", "rich"})


def test_the_whole_domain_together_imports_nothing_heavy() -> None:
    domain = domain_modules()
    assert {
        "lean_ops.config.strict_yaml",
        "lean_ops.contracts.contract_file",
        "lean_ops.contracts.compatibility",
    } <= set(domain)
    modules = imported_by(f"import {', '.join(domain)}")
    assert not modules & (HEAVY | {"typer", "rich"})


def test_the_command_line_imports_nothing_heavy_before_a_command_runs() -> None:
    modules = imported_by("import lean_ops.cli")
    assert not modules & (HEAVY | {"pydantic", "rich", "yaml"})
