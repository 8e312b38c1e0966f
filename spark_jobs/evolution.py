"""The columns of a Standardized table while a batch runs: what is known, what is added, what is reported."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from pyiceberg.catalog import Catalog

from lean_ops import columns, drift, tables
from lean_ops.aws.ddl import ensure_table
from lean_ops.batch_plan import BatchPlan
from lean_ops.columns import OVERFLOW
from lean_ops.drift import DriftState
from lean_ops.errors import DataFaultError
from lean_ops.survey import KnownShape
from spark_jobs.transforms.discovery import Discovered
from spark_jobs.transforms.payloads import TableColumn, TableShape


@dataclass(frozen=True)
class Evolution:
    """A table's columns as they are now, with what earlier batches remember of them."""

    plan: BatchPlan
    fields: tuple[tuple[str, str | None, int], ...]
    state: DriftState

    @classmethod
    def of(cls, catalog: Catalog, plan: BatchPlan, remembered: str | None) -> Self:
        """Read the columns from the table, their history from the topic's state."""
        fields = catalog.load_table(tables.standardized(plan.topic).identifier).schema().fields
        return cls(
            plan,
            tuple((field.name, field.doc, field.field_id) for field in fields),
            DriftState.from_json(json.loads(remembered or "{}")),
        )

    @property
    def registry(self) -> columns.Registry:
        return columns.registry((name, doc) for name, doc, _ in self.fields)

    @property
    def known(self) -> KnownShape:
        """What a pass over the payloads need not report."""
        policy, registry = self.plan.settings.drift, self.registry
        return KnownShape(
            kinds=tuple((path, self._kinds(name)) for path, name in registry.columns.items()),
            room=columns.room(registry, policy.max_columns, policy.new_column),
            period_path=self.plan.settings.keys.period_reference,
        )

    def evolved(self, catalog: Catalog, found: Discovered) -> Evolution:
        """Give new leaves their columns, all in one schema change; done again, it changes nothing."""
        policy, topic = self.plan.settings.drift, self.plan.topic
        changes = columns.extend(self.registry, found.kinds, policy.max_columns, policy.new_column)
        if policy.new_column == "fail" and (changes.refused or found.overflow):
            raise DataFaultError(
                f"{topic}: the payloads have leaves without a column, such as {', '.join(changes.refused[:10])}",
                next_step=f"set drift.new_column in topics/{topic}.yaml, or mend the source",
                topic=topic,
                batch_id=self.plan.batch_id,
            )
        new = [tables.Column(name, "string", doc=path) for name, path in changes.added]
        if found.overflow or changes.overflow:
            new.append(tables.Column(OVERFLOW, "string"))
        if not new:
            return self
        spec = tables.standardized(topic)
        table = ensure_table(catalog, replace(spec, columns=(*spec.columns, *new)))
        fields = tuple((field.name, field.doc, field.field_id) for field in table.schema().fields)
        return replace(self, fields=fields)

    def shape(self, found: Discovered) -> TableShape:
        """What a pass that writes the rows needs to know."""
        paths = {name: path for path, name in self.registry.columns.items()}
        keys = self.plan.settings.keys
        return TableShape(
            tuple(
                TableColumn(name, paths.get(name), self._kinds(name, found.kinds.get(paths.get(name, ""))))
                for name, _, _ in self.fields
            ),
            idempotency_path=keys.idempotency_key,
            period_path=keys.period_reference,
        )

    def observed(self, found: Discovered) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The state to remember, and the drift of the batch.

        Columns are new when they came after the plan, not when this run added them: a rerun reports them too.
        """
        paths = {name: path for path, name in self.registry.columns.items()}
        state, events = drift.observe(
            self.state,
            paths,
            added=[
                name for name, _, number in self.fields if number > self.plan.last_column_id and name in paths
            ],
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
