"""Collects what the gates decide on: metadata of tables and items of DynamoDB, never a row of data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lean_ops import naming
from lean_ops.aws import lake
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.checkpoints import Checkpoints, State
from lean_ops.aws.clients import client
from lean_ops.aws.leases import Leases
from lean_ops.aws.registry import Registry
from lean_ops.batch.next_batch import Facts, NothingNew, Volume, decide
from lean_ops.gates import HopFacts, TopicFacts
from lean_ops.runtime import Runtime

# What matters here is whether there is anything at all: no range is ever cut.
_EVERYTHING = Volume(records=2**62, bytes=2**62)


@dataclass(frozen=True)
class GateReader:
    """Reads the facts of any topic of an environment."""

    catalog: Catalog
    registry: Registry
    checkpoints: Checkpoints

    def facts(self, topic: str) -> TopicFacts:
        """The topic as of now."""
        raw = self._table(naming.raw_table(topic))
        standardized = self._table(naming.standardized_table(topic))
        curated = self._table(naming.curated_table(topic))
        return TopicFacts(
            topic,
            self.registry.load(topic),
            standardize=_hop(raw, standardized, self.checkpoints.load(topic, "standardize")),
            curate=_hop(standardized, curated, self.checkpoints.load(topic, "curate")) if curated else None,
        )

    def _table(self, identifier: tuple[str, str]) -> Table | None:
        try:
            return self.catalog.load_table(identifier)
        except NoSuchTableError:
            return None


def gate_reader(runtime: Runtime) -> GateReader:
    """The reader of an environment."""
    dynamodb, names = client(runtime, "dynamodb"), runtime.names
    return GateReader(
        open_catalog(runtime.environment, runtime.home),
        Registry(dynamodb, names),
        Checkpoints(dynamodb, names, Leases(dynamodb, names)),
    )


def _hop(source: Table | None, target: Table | None, state: State) -> HopFacts:
    if source is None:
        return HopFacts(NothingNew())
    decision = decide(
        Facts(
            snapshots=lake.ancestry(source),
            token=lake.newest_token(target) if target else None,
            target_whole=lake.is_whole(target) if target else True,
            checkpoint=state.checkpoint.snapshot_id if state.checkpoint else None,
            open_plan=state.open_plan,
            bite=_EVERYTHING,
        ),
        partial(lake.day_volumes, source),
    )
    waiting_since = None if isinstance(decision, NothingNew) else _oldest_news(source, target)
    return HopFacts(decision, waiting_since)


def _oldest_news(source: Table, target: Table | None) -> datetime | None:
    """When the oldest rows that the target has not seen were committed."""
    token = lake.newest_token(target) if target else None
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in source.metadata.snapshots}
    news: list[int] = []
    for snapshot in lake.ancestry(source):
        if token is not None and snapshot.snapshot_id == token.end_snapshot:
            news = []
        elif snapshot.news.records:
            news.append(times[snapshot.snapshot_id])
    return datetime.fromtimestamp(news[0] / 1000, UTC) if news else None
