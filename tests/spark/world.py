"""A topic on a real lake: RAW is appended to, the job runs, and the tables are read back without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lean_ops import naming, tables
from lean_ops.aws.checkpoints import Checkpoints
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Lease, Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.batch_plan import Hop
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.next_batch import Volume
from lean_ops.batch.steps import Steps
from lean_ops.config.topics import DriftSpec, KeysSpec, TopicSpec
from lean_ops.payload.columns import ENVELOPE, OVERFLOW
from lean_ops.runtime import Runtime
from spark_jobs.protocol import BITE, run_batch
from spark_jobs.standardize import Standardize
from spark_jobs.work import Ports
from tests.spark.oracle import EPOCH, Fault, Identity, Message, Oracle, Row, Rules

_MICROSECOND = (EPOCH.resolution).total_seconds()


class Silent(Steps):
    """Steps that log nothing; their names, in order, list the effects of a run."""

    def __init__(self) -> None:
        super().__init__(log=lambda _: None)


@dataclass(frozen=True)
class Lake:
    """A catalog with its files, the state in DynamoDB, and a Spark session that sees both."""

    runtime: Runtime
    catalog: Catalog
    dynamodb: Any
    spark: SparkSession

    def new_session(self) -> SparkSession:
        """Another session of the same application, with caches of its own."""
        return session_with(self.spark, self.spark.conf.getAll)


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session on another catalog than the one that the application was started with."""
    session = spark.newSession()
    for key, value in settings.items():
        if key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    return session


def topic_spec(name: str, rules: Rules, **drift: Any) -> TopicSpec:
    """A topic with these rules."""
    return TopicSpec(
        topic=name,
        owner="platform",
        description="What a test sends.",
        keys=KeysSpec(idempotency_key=rules.key_path, period_reference=rules.period_path),
        drift=DriftSpec(**drift),
        standardized_lifo="batch" if rules.lifo else "none",
    )


def accept_held(ports: Ports, topic: str, hop: Hop) -> None:
    """Let the batch that is on hold run again."""
    with Lease(ports.leases, topic, "somebody") as lease:
        hold = ports.checkpoints.load(topic, hop).hold
        assert hold is not None
        ports.checkpoints.accept(lease.claim, hold, "looked into")


@dataclass
class World:
    """One topic. `commits` remembers which snapshot of RAW brought which messages."""

    lake: Lake
    topic: TopicSpec
    rules: Rules
    on_executors: bool = False
    commits: list[tuple[int, list[Message]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for spec in (tables.raw(self.name), tables.standardized(self.name)):
            ensure_table(self.lake.catalog, spec)

    @property
    def name(self) -> str:
        return self.topic.topic

    @property
    def raw(self) -> Table:
        return self.lake.catalog.load_table(naming.raw_table(self.name))

    @property
    def target(self) -> Table:
        return self.standardized

    @property
    def standardized(self) -> Table:
        return self.lake.catalog.load_table(naming.standardized_table(self.name))

    @property
    def outbox(self) -> Outbox:
        return Outbox(self.lake.dynamodb, self.lake.runtime.names)

    def append(self, messages: Sequence[Message]) -> None:
        """Commit messages to RAW, as Firehose does."""
        raw = self.raw
        rows = [
            message._asdict() | {"topic_name": self.name, "publish_time": message.published}
            for message in messages
        ]
        raw.append(pa.Table.from_pylist(rows, schema=raw.schema().as_arrow()))
        snapshot = raw.current_snapshot()
        assert snapshot is not None
        self.commits.append((snapshot.snapshot_id, list(messages)))

    def ports(self, steps: Steps | None = None, leases: Leases | None = None) -> Ports:
        dynamodb, names = self.lake.dynamodb, self.lake.runtime.names
        leases = leases or Leases(dynamodb, names)
        return Ports(
            catalog=self.lake.catalog,
            leases=leases,
            checkpoints=Checkpoints(dynamodb, names, leases),
            outbox=Outbox(dynamodb, names),
            secrets=Secrets(None, names),
            steps=steps or Silent(),
        )

    def run(
        self,
        steps: Steps | None = None,
        *,
        bite: Volume = BITE,
        leases: Leases | None = None,
        spark: SparkSession | None = None,
        work: Standardize | None = None,
    ) -> BatchResult | None:
        """One batch."""
        return run_batch(spark or self.lake.spark, work or self.work(), self.ports(steps, leases), bite)

    def catch_up(self, bite: Volume = BITE) -> list[BatchResult]:
        """Batch after batch until nothing is new."""
        done: list[BatchResult] = []
        while (result := self.run(bite=bite)) is not None:
            done.append(result)
        return done

    def accept(self) -> None:
        """Let the batch that is on hold run again."""
        accept_held(self.ports(), self.name, "standardize")

    def work(self, **changes: Any) -> Standardize:
        work = Standardize(self.topic, "1.0", "0" * 64)
        # No batch is small enough for the driver.
        return replace(work, **({"driver_rows": -1} if self.on_executors else {}), **changes)

    def messages(self, result: BatchResult | None = None) -> list[Message]:
        """The messages that a batch read, by its own account; all of RAW without one."""
        taken, inside = [], result is None or result.start_snapshot is None
        for snapshot, messages in self.commits:
            if inside:
                taken += [message for message in messages if result is None or _takes(result, message)]
            inside = inside or snapshot == (result and result.start_snapshot)
            if result is not None and snapshot == result.end_snapshot:
                break
        return taken

    def rows(self) -> dict[Identity, Row]:
        """Standardized as it is: every leaf by its path, wherever it landed."""
        table = self.standardized
        paths = {f.name: f.doc for f in table.schema().fields if f.name not in (*ENVELOPE, OVERFLOW)}
        assert None not in paths.values(), "a payload column without a path"
        assert max(Counter(paths.values()).values(), default=0) <= 1, "a path with two columns"
        found: dict[Identity, Row] = {}
        for record in table.scan().to_arrow().to_pylist():
            identity = _identity(record)
            assert identity not in found, f"{identity} stands in Standardized twice"
            assert record["topic_name"] == self.name
            leaves = {path: record[name] for name, path in paths.items() if record[name] is not None}
            overflow = json.loads(record.get(OVERFLOW) or "{}")
            assert not leaves.keys() & overflow.keys(), "a leaf in a column and in _overflow"
            envelope = (record[name] for name in ("ingestion_ts", "idempotency_key", "period_reference"))
            found[identity] = Row(*envelope, leaves | overflow)
        return found

    def faults(self) -> dict[Identity, Fault]:
        """The topic's parse errors as they are."""
        table = self.lake.catalog.load_table(tables.PARSE_ERRORS.identifier)
        found: dict[Identity, Fault] = {}
        for record in table.scan(f"topic_name = '{self.name}'").to_arrow().to_pylist():
            identity = _identity(record)
            assert identity not in found, f"{identity} stands in parse_errors twice"
            assert (record["status"], record["attempt"]) == ("open", 1)
            envelope = (
                record[name] for name in ("ingestion_ts", "idempotency_key", "json_payload", "error_code")
            )
            found[identity] = Fault(*envelope)
        return found

    def paths(self) -> set[str | None]:
        """The payload paths that have a column."""
        return {
            field.doc
            for field in self.standardized.schema().fields
            if field.name not in (*ENVELOPE, OVERFLOW)
        }

    def history(self) -> list[BatchResult]:
        """The topic's batches as they told the run history, in the order of their time."""
        told = self._told("job_run_history")
        return [BatchResult.model_validate_json(values["result"]) for values in told]

    def drift(self) -> list[tuple[str, str, str]]:
        """The topic's drift log: batch, action and path."""
        return [
            (values["batch_id"], values["action"], json.loads(values["details"])["path"])
            for values in self._told("drift_log")
        ]

    def published(self) -> list[str]:
        """The batches that stand in the table's own history, oldest first."""
        table = self.standardized
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        tokens, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            tokens += [summary["lean.batch-id"]] if "lean.batch-id" in summary else []
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return tokens[::-1]

    def _told(self, table: str) -> list[dict[str, Any]]:
        events = self.outbox.waiting(table)
        return [dict(event.values) for event in events if event.values["topic_name"] == self.name]


def all_at_once(world: World) -> Oracle:
    """The oracle, shown everything that RAW holds as one batch."""
    oracle = Oracle(world.rules)
    oracle.take(world.messages())
    return oracle


def batch_by_batch(world: World) -> Oracle:
    """The oracle, shown the batches of the run history one by one; their books and drift must be its own."""
    oracle, drift, paths = Oracle(world.rules), Counter(world.drift()), world.paths()
    for result in world.history():
        expected = oracle.take(world.messages(result))
        found = result.counts | {name: int(text) for name, text in result.fingerprints.items()}
        assert {name: found[name] for name in expected} == expected, result.batch_id
        changes = Counter((result.batch_id, action, path) for action, path in oracle.drift if path in paths)
        assert {change: drift.pop(change, 0) for change in changes} == changes
    assert not drift, "drift that did not happen"
    return oracle


def assert_tables(world: World, oracle: Oracle) -> None:
    """The tables hold what the oracle says, nothing more and nothing less."""
    _assert_same(world.rows(), oracle.rows)
    _assert_same(world.faults(), oracle.faults)


def check(world: World) -> None:
    """The tables are the oracle's, batch by batch as they were cut; and, as nothing depends on that, all at once.

    Every batch was published once and told once.
    """
    assert_tables(world, batch_by_batch(world))
    if not world.rules.lifo:
        assert_tables(world, all_at_once(world))
    assert [result.batch_id for result in world.history()] == world.published()
    assert len(set(world.published())) == len(world.published())


def _assert_same(found: dict[Identity, Any], expected: dict[Identity, Any]) -> None:
    assert found.keys() - expected.keys() == set(), "rows that should not be there"
    assert expected.keys() - found.keys() == set(), "rows that are missing"
    for identity, row in expected.items():
        assert found[identity] == row, identity


def _identity(record: dict[str, Any]) -> Identity:
    return record["message_id"], round((record["publish_time"] - EPOCH).total_seconds() / _MICROSECOND)


def _takes(result: BatchResult, message: Message) -> bool:
    day = message.published.date()
    return (result.first_day or date.min) <= day <= (result.last_day or date.max)


WorldOf = Callable[..., World]
