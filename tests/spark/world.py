"""A topic on a real lake: RAW is appended to, the job runs, and the tables are read back without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
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
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.batch_result import BatchResult
from lean_ops.columns import ENVELOPE, OVERFLOW
from lean_ops.next_batch import Volume
from lean_ops.runtime import Runtime
from lean_ops.steps import Steps
from lean_ops.topics import DriftSpec, KeysSpec, TopicSpec
from spark_jobs.protocol import BITE, Ports, run_batch
from spark_jobs.session import settings
from spark_jobs.standardize import Standardize
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
        return session_on(self.spark, self.runtime)


def session_on(spark: SparkSession, runtime: Runtime) -> SparkSession:
    """A session on a runtime's catalog, whatever catalog the application was started with."""
    session = spark.newSession()
    for key, value in settings(runtime).items():
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


@dataclass
class World:
    """One topic. `commits` remembers which snapshot of RAW brought which messages."""

    lake: Lake
    topic: TopicSpec
    rules: Rules
    commits: list[tuple[int, list[Message]]] = field(default_factory=list)
    results: list[BatchResult] = field(default_factory=list)

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
        result = run_batch(spark or self.lake.spark, work or self.work(), self.ports(steps, leases), bite)
        self.results += [result] if result is not None else []
        return result

    def catch_up(self, bite: Volume = BITE) -> list[BatchResult]:
        """Batch after batch until nothing is new."""
        done: list[BatchResult] = []
        while (result := self.run(bite=bite)) is not None:
            done.append(result)
        return done

    def work(self, **changes: Any) -> Standardize:
        return replace(Standardize(self.topic, "1.0", "0" * 64), **changes)

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

    def told(self, table: str) -> list[dict[str, Any]]:
        """What the topic's batches left in the outbox for an ops table."""
        return [
            dict(event.values)
            for event in self.outbox.waiting(table)
            if event.values["topic_name"] == self.name
        ]

    def oracle(self) -> Oracle:
        """The oracle, shown everything that RAW holds at once."""
        oracle = Oracle(self.rules)
        oracle.take(self.messages())
        return oracle


def books_of(result: BatchResult) -> dict[str, int]:
    """A result's books in the oracle's words."""
    return result.counts | {name: int(text) for name, text in result.fingerprints.items()}


def assert_equal(world: World, oracle: Oracle) -> None:
    """The tables hold what the oracle says, nothing more and nothing less."""
    _assert_same(world.rows(), oracle.rows)
    _assert_same(world.faults(), oracle.faults)


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
