"""Personal values as keyed hashes: equal values stay equal, and nobody without the key can guess them."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def keyed_hashes(texts: pa.Array | pa.ChunkedArray, key: bytes) -> pa.Array:
    """HMAC-SHA256 of each text, in hex; NULL stays NULL."""
    # As bytes, because nobody promised that a payload is UTF-8.
    values = texts.cast(pa.large_binary()).to_pylist()
    hashed = [None if value is None else hmac.digest(key, value, "sha256").hex() for value in values]
    return pa.array(hashed, pa.large_string())


def hashed_table(table: pa.Table, columns: Sequence[str], key: bytes) -> pa.Table:
    """The table with these columns hashed."""
    for name in columns:
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, keyed_hashes(table[name], key))
    return table


def hashed_frame(frame: DataFrame, columns: Sequence[str], key: bytes) -> DataFrame:
    """The same on the executors. The key travels inside the function: a literal would show in Spark's plans."""

    def hashes(texts: pa.Array) -> pa.Array:
        return keyed_hashes(texts, key)

    # Not by the annotations: they are texts here, and Spark looks for types.
    hashes.__annotations__ = {"texts": pa.Array, "return": pa.Array}
    keyed = F.arrow_udf(hashes, "string")
    return frame.withColumns({name: keyed(F.col(name)) for name in columns})
