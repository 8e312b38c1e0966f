"""Jars enter the cache with the locked bytes or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def jars() -> ModuleType:
    spec = importlib.util.spec_from_file_location("jars", ROOT / "scripts" / "jars.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["jars"] = module
    spec.loader.exec_module(module)
    return module


def test_the_lock_names_files_after_their_coordinates(jars: ModuleType) -> None:
    locked = jars.read_lock(ROOT / "locks" / "jars.txt")
    assert locked
    for jar in locked:
        _, artifact, version = jar.coordinate.split(":")
        assert jar.file == f"{artifact}-{version}.jar"
        assert len(bytes.fromhex(jar.sha256)) == 32


def test_spark_and_the_jars_are_of_one_version(jars: ModuleType) -> None:
    """The runtime is built for one minor version of Spark: 4.1 in `iceberg-spark-runtime-4.1_2.13`."""
    (runtime,) = [
        jar for jar in jars.read_lock(ROOT / "locks" / "jars.txt") if "spark-runtime" in jar.coordinate
    ]
    (pyspark,) = [
        line for line in (ROOT / "locks" / "local.txt").read_text().split() if line.startswith("pyspark==")
    ]
    assert (
        runtime.coordinate.split(":")[1]
        .split("-")[-1]
        .startswith(".".join(pyspark.removeprefix("pyspark==").split(".")[:2]) + "_")
    )


def test_a_jar_that_is_absent_or_damaged_is_missing(jars: ModuleType, tmp_path: Path) -> None:
    good, damaged, absent = (
        jars.Jar(f"org.example:{name}:1", f"{name}-1.jar", hashlib.sha256(name.encode()).hexdigest())
        for name in ("good", "damaged", "absent")
    )
    (tmp_path / good.file).write_bytes(b"good")
    (tmp_path / damaged.file).write_bytes(b"damaged!")
    assert jars.missing([good, damaged, absent], tmp_path) == [damaged, absent]


def test_a_retrieved_jar_with_other_bytes_is_refused_with_both_hashes(
    jars: ModuleType, tmp_path: Path
) -> None:
    jar = jars.Jar("org.example:thing:1", "thing-1.jar", hashlib.sha256(b"thing").hexdigest())
    retrieved, cache = tmp_path / "retrieved", tmp_path / "cache"
    retrieved.mkdir()
    cache.mkdir()
    (retrieved / "org.example_thing-1.jar").write_bytes(b"something else")
    with pytest.raises(SystemExit, match=f"org.example:thing:1 has sha256 .*the lock says {jar.sha256}"):
        jars.publish([jar], retrieved, cache)
    assert list(cache.iterdir()) == []
