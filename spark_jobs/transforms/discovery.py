"""One pass over the payloads of a batch before anything is written: what is broken, what is new."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from lean_ops.flatten import Kind
from lean_ops.survey import KnownShape
from spark_jobs.transforms import payloads


@dataclass(frozen=True)
class Discovered:
    """What the pass found: kinds of values by path, and how many payloads are broken in which way."""

    kinds: Mapping[str, frozenset[Kind]]
    overflow: bool
    nonsense_periods: int
    faults: Mapping[str, int]


def discover(messages: DataFrame, known: KnownShape) -> DataFrame:
    """Broken payloads with their fault, and rows that say which leaves were seen."""
    schema = from_arrow_schema(payloads.DISCOVERY)
    return messages.mapInArrow(partial(payloads.discover, known=known), schema)


def summary(discovery: DataFrame) -> Discovered:
    """The pass in numbers."""
    kinds: dict[str, set[Kind]] = defaultdict(set)
    faults: Counter[str] = Counter()
    overflow, nonsense = False, 0
    grouped = discovery.groupBy("code", "path", "kind", "overflow").agg(
        F.count("*").alias("rows"), F.sum("nonsense_periods").alias("nonsense")
    )
    for row in grouped.collect():
        if row.code is not None:
            faults[row.code] += row.rows
        elif row.path is not None:
            kinds[row.path].add(row.kind)
        else:
            overflow = overflow or row.overflow
            nonsense += row.nonsense
    frozen = {path: frozenset(found) for path, found in kinds.items()}
    return Discovered(frozen, overflow, nonsense, dict(faults))
