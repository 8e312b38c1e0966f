"""Collects what the gates decide on: metadata of tables and items of DynamoDB, never a row of data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lean_ops import naming
from lean_ops.aws import lake
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.checkpoints import Checkpoints, Hold, State
from lean_ops.aws.clients import client
from lean_ops.aws.leases import Leases
from lean_ops.aws.registry import Registry
from lean_ops.batch.batch_plan import Hop, Token, spec_sha256
from lean_ops.batch.next_batch import Facts, NothingNew, Volume, decide
from lean_ops.config.topics import TopicSpec
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

    def facts(self, spec: TopicSpec) -> TopicFacts:
        """The topic as of now."""
        topic, entry = spec.topic, self.registry.load(spec.topic)
        raw = self._table(naming.raw_table(topic))
        standardized = self._table(naming.standardized_table(topic))
        curated = self._table(naming.curated_table(topic))

        def hop(name: Hop, source: Table | None, target: Table | None) -> HopFacts:
            state = self.checkpoints.load(topic, name)
            held = _held(state.hold, entry.sha256 if entry else None, spec) if state.hold else ""
            return replace(_hop(source, target, state), held=held)

        return TopicFacts(
            topic,
            entry,
            standardize=hop("standardize", raw, standardized),
            curate=hop("curate", standardized, curated) if curated else None,
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
    token = lake.newest_token(target) if target else None
    decision = decide(
        Facts(
            snapshots=lake.ancestry(source),
            token=token,
            target_whole=lake.is_whole(target) if target else True,
            checkpoint=state.checkpoint.snapshot_id if state.checkpoint else None,
            open_plan=state.open_plan,
            bite=_EVERYTHING,
        ),
        partial(lake.day_volumes, source),
    )
    return HopFacts(decision, None if isinstance(decision, NothingNew) else _oldest_news(source, token))


def _held(hold: Hold, contract_sha256: str | None, spec: TopicSpec) -> str:
    """The fault in words, unless another contract or topic file has come since."""
    if not hold.concerns(contract_sha256 or "", spec_sha256(spec)):
        return ""
    accept = f"lean-ops batch accept {hold.plan.batch_id} --reason …"
    return f"{hold.error}: {hold.message} (a new contract, or: {accept})"


def _oldest_news(source: Table, token: Token | None) -> datetime | None:
    """When the oldest rows that the target has not seen were committed."""
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in source.metadata.snapshots}
    news: list[int] = []
    for snapshot in lake.ancestry(source):
        if token is not None and snapshot.snapshot_id == token.end_snapshot:
            news = []
        elif snapshot.news.records:
            news.append(times[snapshot.snapshot_id])
    return datetime.fromtimestamp(news[0] / 1000, UTC) if news else None
