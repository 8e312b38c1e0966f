"""A topic's second hop on a real lake: Standardized is appended to, the job runs, the tables are read without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.types import StringType
from pyspark.sql import SparkSession

from lean_ops import naming, tables
from lean_ops.aws.checkpoints import Checkpoints
from lean_ops.aws.clients import client
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.leases import Leases
from lean_ops.aws.outbox import Outbox
from lean_ops.aws.schema_store import SchemaStore
from lean_ops.aws.secrets import Secrets
from lean_ops.batch.batch_plan import ErrorSelection
from lean_ops.batch.batch_result import BatchResult
from lean_ops.batch.next_batch import Volume
from lean_ops.batch.steps import Steps
from lean_ops.config.topics import CuratedSpec, QualitySpec, TopicSpec
from lean_ops.contracts.spec import ContractSpec
from spark_jobs.curate import Curate
from spark_jobs.protocol import BITE, run_batch
from spark_jobs.replay_errors import ReplayErrors
from spark_jobs.work import Ports
from tests.spark.curated_oracle import CuratedOracle, CuratedRow, OpenError, Violation
from tests.spark.curated_streams import PII_KEY, SORTS, contract
from tests.spark.oracle import Identity, Row
from tests.spark.streams import RULES
from tests.spark.world import Lake, Silent, accept_held, topic_spec

KEY_ID = "test"
# Found in `_overflow` only; the others have columns, whose names say nothing.
SPILLED = {"seenAt", "a\\.b"}
PATHS = (*(str(sort.column.get("path", sort.column["name"])) for sort in SORTS), "meta.note")
COLUMNS = {path: f"c{number}" for number, path in enumerate(PATHS) if path not in SPILLED}
_OWN = (
    "message_id", "publish_time", "period_reference", "first_message_id", "first_period_reference", "first_seen_ts",
    "last_updated_ts", "contract_version",
)  # fmt: skip


def curated_topic(name: str, partitioning: Literal["period", "period_day"] = "period") -> TopicSpec:
    """A topic that no rate of errors stops."""
    quality = QualitySpec(error_rate=1.0, cde_violation_rate=1.0)
    return topic_spec(name, RULES).model_copy(
        update={"quality": quality, "curated": CuratedSpec(partitioning=partitioning)}
    )


@dataclass
class CuratedWorld:
    """One topic. The oracle is shown what Standardized is given, as soon as the job has caught up with it."""

    lake: Lake
    topic: TopicSpec
    version: str = "1.0"
    on_executors: bool = False
    given: dict[Identity, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.oracle = CuratedOracle(self.name, PII_KEY)

    def create(self) -> None:
        """Standardized with its columns."""
        ensure_table(self.lake.catalog, tables.standardized(self.name))
        with self.standardized.update_schema() as update:
            update.add_column("_overflow", StringType())
            for path, name in COLUMNS.items():
                update.add_column(name, StringType(), doc=path)

    @property
    def name(self) -> str:
        return self.topic.topic

    @property
    def contract(self) -> ContractSpec:
        return contract(self.name, self.version)

    @property
    def standardized(self) -> Table:
        return self.lake.catalog.load_table(naming.standardized_table(self.name))

    @property
    def target(self) -> Table:
        return self.curated

    @property
    def curated(self) -> Table:
        return self.lake.catalog.load_table(naming.curated_table(self.name))

    @property
    def schemas(self) -> SchemaStore:
        return SchemaStore(client(self.lake.runtime, "s3"), self.lake.runtime.names)

    def deploy(self, version: str) -> None:
        """Put a contract into force; the one before is kept."""
        s3, bucket = client(self.lake.runtime, "s3"), self.lake.runtime.names.ops_bucket
        text = contract(self.name, version).model_dump_json(exclude_unset=True)
        for place in (f"archive/{version}-x.json", "active/schema.json"):
            s3.put_object(Bucket=bucket, Key=f"schemas/{self.name}/{place}", Body=text.encode())
        self.version = version

    def append(self, rows: Mapping[Identity, Row]) -> None:
        """Commit rows to Standardized, as the first hop does."""
        fresh = {identity: row for identity, row in rows.items() if identity not in self.given}
        self.given |= fresh
        table = self.standardized
        records = [_record(self.name, identity, row) for identity, row in fresh.items()]
        table.append(pa.Table.from_pylist(records, schema=table.schema().as_arrow()))

    def ports(self, steps: Steps | None = None, leases: Leases | None = None) -> Ports:
        dynamodb, names = self.lake.dynamodb, self.lake.runtime.names
        leases = leases or Leases(dynamodb, names)
        return Ports(
            catalog=self.lake.catalog,
            leases=leases,
            checkpoints=Checkpoints(dynamodb, names, leases),
            outbox=Outbox(dynamodb, names),
            secrets=Secrets(client(self.lake.runtime, "secretsmanager"), names),
            steps=steps or Silent(),
        )

    def work(self, **changes: Any) -> Curate:
        work = Curate(self.topic, self.schemas.active(self.name), self.schemas, KEY_ID)
        return replace(work, **({"driver_rows": -1} if self.on_executors else {}), **changes)

    def run(
        self,
        steps: Steps | None = None,
        *,
        bite: Volume = BITE,
        leases: Leases | None = None,
        spark: SparkSession | None = None,
        work: Any = None,
    ) -> BatchResult | None:
        """One batch."""
        return run_batch(spark or self.lake.spark, work or self.work(), self.ports(steps, leases), bite)

    def catch_up(self, bite: Volume = BITE) -> list[BatchResult]:
        """Batch after batch until nothing is new; the oracle sees the same under the same contract."""
        done: list[BatchResult] = []
        while (result := self.run(bite=bite)) is not None:
            done.append(result)
        self.oracle.take(self.given, self.contract)
        return done

    def accept(self) -> None:
        """Let the batch that is on hold run again."""
        accept_held(self.ports(), self.name, "curate")

    def replaying(self, code: str | None = None) -> ReplayErrors:
        """The replay that a person asks for now."""
        made = self.work()
        return ReplayErrors(
            made.topic,
            made.active,
            made.contracts,
            made.pii_key_id,
            driver_rows=made.driver_rows,
            selection=ErrorSelection(error_code=code),
        )

    def replay(self, code: str | None = None, bite: Volume = BITE) -> list[BatchResult]:
        """Validate open errors once more; the oracle does the same under the same contract."""
        work, done = self.replaying(code), []
        while (result := self.run(work=work, bite=bite)) is not None:
            done.append(result)
        self.oracle.replay(self.contract, code)
        return done

    def rows(self) -> dict[str, CuratedRow]:
        """Curated as it is."""
        found: dict[str, CuratedRow] = {}
        for record in _records(self.curated):
            key = record.pop("idempotency_key")
            assert key not in found, f"{key} has two rows"
            assert record.pop("_key_hash") is not None
            own = [record.pop(name) for name in _OWN]
            found[key] = CuratedRow(
                *own, {name: value for name, value in record.items() if value is not None}
            )
        return found

    def attempts(self) -> dict[Identity, list[dict[str, Any]]]:
        """The topic's errors as they are, by record, in the order of their attempts."""
        table = self.lake.catalog.load_table(tables.ERRORS.identifier)
        found: dict[Identity, list[dict[str, Any]]] = {}
        for record in _records(table, f"topic_name = '{self.name}'"):
            identity = record["message_id"], record["publish_time"]
            assert record["record_id"] == f"{self.name}/curate/{identity[1]}/{identity[0]}"
            found.setdefault(identity, []).append(record)
        for identity, records in found.items():
            records.sort(key=lambda each: each["attempt"])
            assert [each["attempt"] for each in records] == list(range(1, len(records) + 1)), identity
        return found

    def errors(self, *, once: bool) -> tuple[dict[Identity, OpenError], dict[Identity, int]]:
        """The open errors, and at which attempt the others were resolved; `once`, unless a replay was undone."""
        opened: dict[Identity, OpenError] = {}
        resolved: dict[Identity, int] = {}
        for identity, records in self.attempts().items():
            *before, last = records
            assert not once or all(each["status"] == "open" for each in before), identity
            if last["status"] == "resolved":
                resolved[identity] = last["attempt"]
                continue
            opened[identity] = _open_error(last)
        return opened, resolved

    def history(self) -> list[BatchResult]:
        """The topic's batches as they told the run history, in the order of their time."""
        events = Outbox(self.lake.dynamodb, self.lake.runtime.names).waiting("job_run_history")
        mine = (event.values for event in events if event.values["topic_name"] == self.name)
        return [BatchResult.model_validate_json(values["result"]) for values in mine]

    def published(self) -> list[str]:
        """The batches that stand in the table's own history, oldest first."""
        table = self.curated
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        tokens, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            tokens += [summary["lean.batch-id"]] if "lean.batch-id" in summary else []
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return tokens[::-1]


def check(world: CuratedWorld, *, attempts: bool = True) -> None:
    """The tables hold what the oracle says, nothing more and nothing less.

    How often a record was tried is compared unless a replay was cut off or undone: it is then done once more.
    """
    rows, expected = world.rows(), world.oracle.rows
    assert rows.keys() - expected.keys() == set(), "rows that should not be there"
    assert expected.keys() - rows.keys() == set(), "rows that are missing"
    for key, row in expected.items():
        assert rows[key] == row, f"{key}: {rows[key]} is not {row}"
    opened, resolved = world.errors(once=attempts)
    assert opened.keys() ^ world.oracle.errors.keys() == set(), (
        "errors that are missing, or should not be there"
    )
    for identity, error in world.oracle.errors.items():
        found = opened[identity] if attempts else opened[identity]._replace(attempt=error.attempt)
        assert found == error, f"{identity}: {found} is not {error}"
    assert resolved == world.oracle.resolved if attempts else resolved.keys() == world.oracle.resolved.keys()


def everything(world: CuratedWorld) -> dict[str, Any]:
    """All that must not change when somebody is refused."""
    return {
        "head": world.curated.metadata.current_snapshot_id,
        "rows": world.rows(),
        "attempts": world.attempts(),
        "history": world.history(),
    }


def _open_error(record: dict[str, Any]) -> OpenError:
    assert record["status"] == "open"
    violations = json.loads(record["violations"])
    first = violations[0]
    assert (record["error_code"], record["column_name"], record["rule"]) == (
        first["code"], first["column"], first["rule"],
    )  # fmt: skip
    told = tuple(Violation(each["code"], each["column"], each.get("value")) for each in violations)
    return OpenError(record["attempt"], record["contract_version"], record["period_reference"], told)


def _record(topic: str, identity: Identity, row: Row) -> dict[str, Any]:
    message_id, publish_time = identity
    spilled = {path: text for path, text in row.leaves.items() if path not in COLUMNS}
    return {
        "message_id": message_id,
        "topic_name": topic,
        "publish_time": publish_time,
        "ingestion_ts": row.ingestion_ts,
        "idempotency_key": row.idempotency_key,
        "period_reference": row.period_reference,
        "_overflow": json.dumps(spilled) if spilled else None,
        **{name: row.leaves.get(path) for path, name in COLUMNS.items()},
    }


def _records(table: Table, where: str | None = None) -> list[dict[str, Any]]:
    """Rows with instants in microseconds: some of them have no datetime."""
    found = (table.scan(where) if where else table.scan()).to_arrow()
    for index, column in enumerate(found.schema):
        if pa.types.is_timestamp(column.type):
            found = found.set_column(index, column.name, found[column.name].cast(pa.int64()))
    return found.to_pylist()


CuratedWorldOf = Callable[..., CuratedWorld]
