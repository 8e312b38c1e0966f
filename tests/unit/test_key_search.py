"""The sieve lets every key pass that is looked for, and no other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.key_search import Sieve, key_hashes


@given(st.lists(st.text(), max_size=50))
def test_who_is_looked_for_passes(keys: list[str]) -> None:
    hashes = key_hashes(pa.array(keys, pa.string()))
    assert Sieve.of(hashes).passing(hashes).all()


def test_nobody_else_passes() -> None:
    keys = pa.array([f"key-{number}" for number in range(20_000)])
    others = pa.array([f"other-{number}" for number in range(20_000)])
    assert not Sieve.of(key_hashes(keys)).passing(key_hashes(others)).any()


def test_the_hash_of_a_key_is_the_one_in_the_tables() -> None:
    """Another one would not find the rows that are there: a key's correction would become a second row."""
    assert key_hashes(pa.array(["", "order-1", "Zürich"])).tolist() == [
        -1970711489451281740,
        2709196713320186429,
        8103164278749123848,
    ]
    assert key_hashes(pa.array([], pa.string())).dtype == np.int64
