"""A catalog in which one table stands still at an earlier snapshot: what came later does not exist for a run."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lean_ops.errors import UsageError


class CatalogAsOf:
    """Everything but the one table is the catalog's own."""

    def __init__(self, catalog: Catalog, table: tuple[str, str], snapshot: int) -> None:
        self._catalog, self._held, self._snapshot = catalog, table, snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def load_table(self, identifier: tuple[str, str]) -> Table:
        """The table; the one that is held has the earlier snapshot as its head."""
        table = self._catalog.load_table(identifier)
        if tuple(identifier) != self._held:
            return table
        if table.snapshot_by_id(self._snapshot) is None:
            raise UsageError(
                f"{'.'.join(self._held)} has no snapshot {self._snapshot}",
                next_step="name a snapshot that the table still has",
            )
        table.metadata = table.metadata.model_copy(update={"current_snapshot_id": self._snapshot})
        return table
