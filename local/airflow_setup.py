"""Brings Airflow's database up to its version and makes the pools; nothing to do when both were done before."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

# On one machine a single Spark process takes the jobs: more at once would only wait in it.
POOLS = {
    f"spark_{kind}": {
        "slots": slots,
        "description": f"Jobs at once on the engine {kind}.",
        "include_deferred": True,
    }
    for kind, slots in (("local", 2), ("glue", 50), ("emr_serverless", 50))
}


def main(folder: Path) -> None:
    """`python -m local.airflow_setup`, a step of the local stack."""
    stamp = folder / "airflow-version"
    wanted = f"{version('apache-airflow')} {json.dumps(POOLS)}"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    _airflow("db", "migrate")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as pools:
        json.dump(POOLS, pools)
        pools.flush()
        _airflow("pools", "import", pools.name)
    stamp.write_text(wanted, "utf-8")


def _airflow(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "airflow", *arguments], check=True)  # noqa: S603


if __name__ == "__main__":
    main(Path(sys.argv[1]))
