"""What a batch does to Curated, decided on keys and versions alone.

One row per key: its payload is that of the greatest valid version, first_* are those of the least. So what comes
out depends on which versions there are, not on the order in which they came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.identities import Numbers, Versions, alike, later
from spark_jobs.key_search import KEY
from spark_jobs.record_tasks import FIRST

# What has to be known of a record, and of a row of Curated.
RECORD = ("message_id", "publish_time", KEY, "period_reference")
ROW = ("message_id", "publish_time", *FIRST)


class Merge(NamedTuple):
    """Numbers are those of records, or of known rows; `firsts` stand beside them.

    winners   records that become their key's row      kept   rows that stay, but for the first version they name
    gone      rows that are replaced by one of either   keys   how many keys the records have; how many had a row
    """

    winners: Numbers
    winners_firsts: pa.Table
    kept: Numbers
    kept_firsts: pa.Table
    gone: Numbers
    keys: int
    known_keys: int


def merge(records: pa.Table, valid: Numbers, known: pa.Table) -> Merge:
    """What becomes of the valid ones of some records, and of the rows that their keys have already."""
    chosen = records.select(RECORD).take(pa.array(valid))
    (own, theirs), size = alike(_text(chosen[KEY]), _text(known[KEY]))
    numbered = chosen.append_column("_key", pa.array(own))
    order = pc.sort_indices(
        numbered, [(name, "ascending") for name in ("_key", "publish_time", "message_id")]
    ).to_numpy()
    begins = np.flatnonzero(np.diff(own[order], prepend=-1))
    ends = np.append(begins[1:], len(order))[: len(begins)] - 1
    least, greatest = order[begins], order[ends]
    at = np.full(size, -1)
    at[theirs] = np.arange(len(theirs))
    at = at[own[greatest]]
    has = at >= 0

    rows = known.take(pa.array(at[has]))
    newer, earlier = np.ones(len(at), np.bool_), np.ones(len(at), np.bool_)
    newer[has] = later(_version(chosen, greatest[has]), _version(rows))
    earlier[has] = later(
        (rows["first_seen_ts"], _text(rows["first_message_id"])), _version(chosen, least[has])
    )
    firsts = _firsts(chosen.take(pa.array(least)), rows, has, earlier)
    wins, keeps = ~has | newer, has & ~newer & earlier
    by_record = np.argsort(greatest[wins])
    return Merge(
        winners=valid[greatest[wins][by_record]],
        winners_firsts=firsts.filter(pa.array(wins)).take(pa.array(by_record)),
        kept=at[keeps],
        kept_firsts=firsts.filter(pa.array(keeps)),
        gone=at[has & (newer | earlier)],
        keys=len(at),
        known_keys=int(has.sum()),
    )


def _firsts(least: pa.Table, rows: pa.Table, has: np.ndarray, earlier: np.ndarray) -> pa.Table:
    """The first version of every key: the least record, unless the row knows an earlier one."""
    place = np.cumsum(has) - 1
    columns = {}
    for name, mine in FIRST.items():
        theirs = rows[name].cast(least[mine].type).take(pa.array(place, mask=~has))
        columns[name] = pc.if_else(pa.array(earlier), least[mine].combine_chunks(), theirs.combine_chunks())
    return pa.table(columns)


def _version(table: pa.Table, rows: Numbers | None = None) -> Versions:
    found = table if rows is None else table.take(pa.array(rows))
    return found["publish_time"], _text(found["message_id"])


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.large_string())
