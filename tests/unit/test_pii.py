"""Our keyed hashes are those of everybody's library."""

from __future__ import annotations

import hmac

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.transforms.pii import keyed_hashes


@given(st.lists(st.text() | st.none()), st.binary(max_size=200))
def test_a_value_has_the_hash_that_the_standard_library_gives(values: list[str | None], key: bytes) -> None:
    expected = [value and hmac.new(key, value.encode(), "sha256").hexdigest() for value in values]
    empty = hmac.new(key, b"", "sha256").hexdigest()
    found = keyed_hashes(pa.array(values, pa.large_string()), key).to_pylist()
    assert found == [empty if value == "" else each for value, each in zip(values, expected, strict=True)]
