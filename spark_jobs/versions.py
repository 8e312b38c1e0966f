"""Versions of a key: which messages of a batch a later one with the same key supersedes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("message_id", "publish_time", "idempotency_key")


def superseded(rows: pa.Table) -> pa.Table:
    """Messages that are not the greatest version of their key among these rows; without a key none is."""
    keyed = rows.filter(rows["idempotency_key"].is_valid())
    latest_first = [(name, "descending") for name in ("idempotency_key", "publish_time", "message_id")]
    ordered = keyed.sort_by(latest_first)
    keys = ordered["idempotency_key"].combine_chunks()
    return ordered.slice(1).filter(pc.equal(keys[1:], keys[:-1]))


def confirmed(left_out: pa.Table, written: pa.Table) -> pa.Table:
    """Those of the messages left out for whose key a greater version was written."""
    wanted = set(left_out["idempotency_key"].to_pylist()) - {None}
    latest: dict[str, tuple[object, object]] = {}
    for message_id, moment, key in _rows(written):
        if key in wanted:
            latest[key] = max(latest.get(key, (moment, message_id)), (moment, message_id))
    return left_out.filter(
        pa.array(
            [
                key in latest and (moment, message_id) < latest[key]
                for message_id, moment, key in _rows(left_out)
            ],
            pa.bool_(),
        )
    )


def _rows(table: pa.Table) -> zip[tuple[object, ...]]:
    return zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
