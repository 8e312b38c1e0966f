"""Facts about Iceberg tables, read from their metadata alone: fresh at every call, a few milliseconds each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lean_ops.batch.batch_plan import Token
from lean_ops.batch.next_batch import SourceSnapshot, Volume

_EPOCH = date(1970, 1, 1)
_DAY_FIELD = "publish_time_day"


def ancestry(table: Table) -> list[SourceSnapshot]:
    """The snapshots that led to the table's head, oldest first, as far back as expiry has left them."""
    return [_source_snapshot(snapshot) for snapshot in reversed(list(_from_head(table)))]


def head(table: Table) -> int:
    """The snapshot that the table's main branch points to. Tables have one from their creation on."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        raise LookupError(f"{'.'.join(table.name())} has no snapshot")
    return snapshot.snapshot_id


def newest_token(table: Table, *, replay: bool = False) -> Token | None:
    """What the newest published batch says of itself: of those that read on, or of those that replay errors."""
    tokens = (Token.from_summary(_summary(snapshot)) for snapshot in _from_head(table))
    return next((token for token in tokens if token and (token.hop == "replay") == replay), None)


def batches(table: Table) -> tuple[frozenset[str], datetime]:
    """The ids of all batches in the table's history, and since when expiry has left it."""
    kept = list(_from_head(table))
    tokens = (Token.from_summary(_summary(snapshot)) for snapshot in kept)
    since = min((snapshot.timestamp_ms for snapshot in kept), default=0)
    return frozenset(token.batch_id for token in tokens if token), datetime.fromtimestamp(since / 1000, UTC)


def is_whole(table: Table) -> bool:
    """Whether the ancestry reaches back to the table's first snapshot."""
    snapshots = list(_from_head(table))
    return bool(snapshots) and snapshots[-1].parent_snapshot_id is None


def last_published_column(table: Table) -> int:
    """The greatest id of a column that the table's head knows: later ones came with nothing that was published."""
    head = table.current_snapshot()
    schema = table.schemas().get(head.schema_id) if head and head.schema_id is not None else None
    return schema.highest_field_id if schema else 0


def rows_at_most(table: Table, snapshot_id: int) -> int | None:
    """How many rows the table holds at most at a snapshot: what was deleted counts as well. None: nobody counted."""
    total = _summary(_snapshot(table, snapshot_id)).get("total-records")
    return None if total is None else int(total)


def holds_rows(table: Table, where: BooleanExpression) -> bool:
    """Whether the table's head may hold a row of these; no only when metadata alone rules it out."""
    return any(True for _ in table.scan(where).plan_files())


def written(table: Table, snapshot: int) -> dict[str, int]:
    """How many rows a batch to Curated replaced and how many it added, as the table's own commit says."""
    summary = _summary(_snapshot(table, snapshot))
    replaced = int(summary.get("added-position-deletes", 0))
    return {"updated_rows": replaced, "added_rows": int(summary.get("added-records", 0)) - replaced}


def day_volumes(table: Table, start: int | None, end: int) -> Mapping[date, Volume]:
    """How much was published on each day, of the rows appended after `start` (of all, when None) up to `end`."""
    volumes: dict[date, Volume] = defaultdict(Volume)
    for file in _files(table, start, end):
        volumes[_publish_day(table, file)] += Volume(file.record_count, file.file_size_in_bytes)
    return volumes


def _from_head(table: Table) -> Iterator[Snapshot]:
    head = table.current_snapshot()
    return _back_from(table, head) if head is not None else iter(())


def _back_from(table: Table, head: Snapshot) -> Iterator[Snapshot]:
    kept = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot: Snapshot | None = head
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = kept.get(parent) if parent is not None else None


def _source_snapshot(snapshot: Snapshot) -> SourceSnapshot:
    summary = _summary(snapshot)
    added = Volume(int(summary.get("added-records", 0)), int(summary.get("added-files-size", 0)))
    operation = summary.get("operation", "")
    return SourceSnapshot(snapshot.snapshot_id, snapshot.parent_snapshot_id, operation, added)


def _summary(snapshot: Snapshot) -> dict[str, str]:
    if snapshot.summary is None:
        return {}
    return {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}


def _snapshot(table: Table, snapshot_id: int) -> Snapshot:
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise LookupError(f"{'.'.join(table.name())} has no snapshot {snapshot_id}")
    return snapshot


def _files(table: Table, start: int | None, end: int) -> Iterator[DataFile]:
    if start is None:
        return (task.file for task in table.scan(snapshot_id=end).plan_files())
    return added_files(table, start, end)


def added_files(table: Table, start: int, end: int) -> Iterator[DataFile]:
    """The files that were appended after `start` up to `end`."""
    for snapshot in _back_from(table, _snapshot(table, end)):
        if snapshot.snapshot_id == start:
            return
        if _summary(snapshot).get("operation") == "append":
            yield from _added(table, snapshot)


def _added(table: Table, snapshot: Snapshot) -> Iterator[DataFile]:
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.status is ManifestEntryStatus.ADDED:
                    yield entry.data_file


def _publish_day(table: Table, file: DataFile) -> date:
    fields = table.specs()[file.spec_id].fields
    position = next(index for index, field in enumerate(fields) if field.name == _DAY_FIELD)
    return _EPOCH + timedelta(days=file.partition[position])
