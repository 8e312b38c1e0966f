"""One snapshot that takes rows out of a table and puts others in: readers see both or neither.

pyiceberg commits data files only; this adds a manifest of delete files to its append.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import UpdateSnapshot, _FastAppendFiles


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def replacing(change: UpdateSnapshot, deletes: Sequence[DataFile]) -> _FastAppendFiles:
    """An append that also commits these delete files."""
    return _RowDelta(
        Operation.OVERWRITE,
        change._transaction,
        change._io,
        snapshot_properties=change._snapshot_properties,
        branch=change._branch,
        deletes=deletes,
    )


class _RowDelta(_FastAppendFiles):
    """Data files to append, and the delete files of what they replace."""

    def __init__(self, *arguments: Any, deletes: Sequence[DataFile], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deletes = list(deletes)

    def _manifests(self) -> list[ManifestFile]:
        specs = sorted({file.spec_id for file in self._deletes})
        return [*map(self._manifest_of_deletes, specs), *super()._manifests()]

    def _manifest_of_deletes(self, spec_id: int) -> ManifestFile:
        metadata, output = self._transaction.table_metadata, self.new_manifest_output()
        of = (metadata.specs()[spec_id], metadata.schema(), output, self._snapshot_id, self._compression)
        with _DeleteManifest(*of) as writer:
            for file in self._deletes:
                if file.spec_id == spec_id:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        appended = self._added_data_files
        # It counts every file by what it holds.
        self._added_data_files = [*appended, *self._deletes]
        try:
            return super()._summary(snapshot_properties or {})
        finally:
            self._added_data_files = appended
