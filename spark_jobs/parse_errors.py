"""The faulty messages of a batch in parse_errors, each once whatever is run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lean_ops import tables
from lean_ops.aws import table_files
from lean_ops.aws.append_missing import contended
from lean_ops.batch.batch_plan import BATCH_ID, BatchPlan
from lean_ops.errors import RetryableError
from lean_ops.identity import Identity

_TEXT = pa.large_string()


def rows(faults: pa.Table, plan: BatchPlan) -> pa.Table:
    """The rows of the table for the faults of a discovery."""
    micros = faults["publish_time"].cast(pa.int64()).to_pylist()
    same = {
        "topic_name": pa.scalar(plan.topic, _TEXT),
        "attempt": pa.scalar(1, pa.int32()),
        "status": pa.scalar("open", _TEXT),
        "batch_id": pa.scalar(plan.batch_id, _TEXT),
        "detected_at": pa.scalar(plan.batch_time, pa.timestamp("us", tz="UTC")),
        "contract_version": pa.scalar(plan.contract_version, _TEXT),
    }
    own = {
        "record_id": pa.array(
            [
                Identity(plan.topic, message_id, moment).record_id("standardize")
                for message_id, moment in zip(faults["message_id"].to_pylist(), micros, strict=True)
            ],
            _TEXT,
        ),
        "error_code": faults["code"],
    }
    made = {name: pa.repeat(value, len(faults)) for name, value in same.items()} | own
    names = [column.name for column in tables.PARSE_ERRORS.columns]
    return pa.table({name: made[name] if name in made else faults[name] for name in names})


def append(
    catalog: Catalog, files: Sequence[DataFile], plan: BatchPlan, is_there: Callable[[Table], bool]
) -> None:
    """Append files in one commit, unless a message of them is in the table already."""

    def commit(table: Table) -> int:
        if is_there(table):
            raise RetryableError(
                f"{plan.topic}: parse_errors has messages of this batch that it had not when the batch began",
                next_step="run again: the batch starts over from what is there now",
                topic=plan.topic,
                batch_id=plan.batch_id,
            )
        table_files.append(table, files, {BATCH_ID: plan.batch_id})
        return len(files)

    contended(catalog, tables.PARSE_ERRORS.identifier, commit)
