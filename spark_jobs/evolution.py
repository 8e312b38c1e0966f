"""The columns of a Standardized table while a batch runs: what is known, what is added, what is reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import StringType

from lean_ops import naming
from lean_ops.batch.batch_plan import BatchPlan
from lean_ops.errors import DataFaultError, RetryableError
from lean_ops.payload import columns, drift
from lean_ops.payload.columns import OVERFLOW
from lean_ops.payload.drift import DriftState
from spark_jobs.transforms.discovery import Discovered
from spark_jobs.transforms.payloads import TableColumn, TableShape

# Name, path and id of every column, in the table's order.
Fields = tuple[tuple[str, str | None, int], ...]


@dataclass(frozen=True)
class Evolution:
    """A table's columns as they are now, with what earlier batches remember of them."""

    plan: BatchPlan
    fields: Fields
    state: DriftState

    @classmethod
    def of(cls, catalog: Catalog, plan: BatchPlan, remembered: str | None) -> Self:
        """Read the columns from the table, their history from the topic's state."""
        table = catalog.load_table(naming.standardized_table(plan.topic))
        return cls(plan, _fields(table), DriftState.from_json(json.loads(remembered or "{}")))

    @property
    def registry(self) -> columns.Registry:
        return columns.registry((name, doc) for name, doc, _ in self.fields)

    @property
    def new_column(self) -> columns.Policy:
        """What becomes of a new leaf; somebody may have accepted a batch that was to fail."""
        asked = self.plan.settings.drift.new_column
        return "add" if self.plan.accepted and asked == "fail" else asked

    def evolved(self, catalog: Catalog, found: Discovered) -> Evolution:
        """Give new leaves their columns, all in one schema change; done again, it changes nothing."""
        topic = self.plan.topic
        limit = self.plan.settings.drift.max_columns
        changes = columns.extend(self.registry, found.kinds, limit, self.new_column)
        if self.new_column == "fail" and (changes.refused or found.overflow):
            raise DataFaultError(
                f"{topic}: the payloads have leaves without a column, such as {', '.join(changes.refused[:10])}",
                next_step=f"set drift.new_column in topics/{topic}.yaml, or mend the source",
                topic=topic,
                batch_id=self.plan.batch_id,
            )
        new: list[tuple[str, str | None]] = list(changes.added)
        if (found.overflow or changes.overflow) and OVERFLOW not in {name for name, _, _ in self.fields}:
            new.append((OVERFLOW, None))
        return replace(self, fields=self._add(catalog, new)) if new else self

    def _add(self, catalog: Catalog, new: Sequence[tuple[str, str | None]]) -> Fields:
        """Add columns if the table is still as we know it: any other way a name could get a second path."""
        table = catalog.load_table(naming.standardized_table(self.plan.topic))
        if _fields(table) != self.fields:
            raise self._outdated()
        try:
            with table.update_schema() as update:
                for name, path in new:
                    update.add_column(name, StringType(), doc=path)
        except CommitFailedException as error:
            raise self._outdated() from error
        return _fields(table)

    def _outdated(self) -> RetryableError:
        return RetryableError(
            f"{self.plan.topic}: the columns of Standardized changed while the batch ran",
            next_step="run again: the columns are read anew",
            topic=self.plan.topic,
            batch_id=self.plan.batch_id,
        )

    @property
    def is_blank(self) -> bool:
        """Whether the table has no column for any leaf yet, but may get one."""
        return not self.registry.columns and self.room > 0

    @property
    def room(self) -> int:
        """How many new paths may become columns."""
        return columns.room(self.registry, self.plan.settings.drift.max_columns, self.new_column)

    def shape(self, found: Discovered) -> TableShape:
        """What a pass over the payloads needs to know, given what was seen in them already."""
        paths = {name: path for path, name in self.registry.columns.items()}
        keys = self.plan.settings.keys
        return TableShape(
            tuple(
                TableColumn(name, paths.get(name), self._kinds(name, found.kinds.get(paths.get(name, ""))))
                for name, _, _ in self.fields
            ),
            idempotency_path=keys.idempotency_key,
            period_path=keys.period_reference,
            room=self.room,
        )

    def observed(self, found: Discovered) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The state to remember, and the drift of the batch.

        Columns are new when no published batch had them, not when this run added them: a rerun reports them too.
        """
        paths = {name: path for path, name in self.registry.columns.items()}
        young = {name for name, _, number in self.fields if number > self.plan.last_column_id}
        state, events = drift.observe(
            self.state,
            paths,
            # A table that was rolled back has young columns that an earlier batch reported.
            added=[name for name in paths if name in young and name not in self.state.columns],
            seen={name: found.kinds[path] for name, path in paths.items() if path in found.kinds},
            day=self.plan.batch_time.date(),
            removed_after=self.plan.settings.drift.removed_after,
        )
        return json.dumps(state.as_json()), tuple(
            asdict(event) | {"action": event.action.value} for event in events
        )

    def _kinds(self, name: str, found: frozenset[Any] | None = None) -> tuple[Any, ...]:
        known = self.state.columns[name].kinds if name in self.state.columns else frozenset()
        return tuple(sorted(known | (found or frozenset())))


def _fields(table: Table) -> Fields:
    return tuple((field.name, field.doc, field.field_id) for field in table.schema().fields)
