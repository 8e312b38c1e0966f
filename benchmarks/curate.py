"""Both hops measured: against what one would use instead, against growing history, and for a small batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import StringType
from pyspark.sql.types import LongType

from benchmarks import seeds_way
from benchmarks.standardize import ROOT, TOPIC, Bench, timed
from lean_ops import naming, tables
from lean_ops.aws import lake, table_files
from lean_ops.aws.ddl import ensure_table
from lean_ops.aws.schema_store import SchemaStore, StoredContract
from lean_ops.batch.batch_result import BatchResult
from lean_ops.config.repository import Repository, load_topic
from lean_ops.payload import columns
from spark_jobs.curate import Curate
from spark_jobs.key_search import key_hashes
from spark_jobs.standardize import Standardize

KEY_ID = "1"
PERIODS = 24


@dataclass
class CurateBench(Bench):
    """The bench with a contract in force and a key for its PII columns."""

    contracts: SchemaStore

    @classmethod
    def begin(cls, home: Path) -> CurateBench:
        bench = Bench.start(home)
        names, region = bench.runtime.names, bench.runtime.environment.region
        s3 = boto3.client("s3", region_name=region)
        s3.create_bucket(Bucket=names.ops_bucket)
        s3.put_object(
            Bucket=names.ops_bucket,
            Key=f"schemas/{TOPIC}/active/schema.json",
            Body=(ROOT / "schemas" / TOPIC / "schema.json").read_bytes(),
        )
        # The jobs' own hash, so that the look-up finds these rows.
        bench.spark.udf.register(
            "old_hash", lambda number: int(key_hashes(pa.array([f"old-{number}"]))[0]), LongType()
        )
        secrets = boto3.client("secretsmanager", region_name=region)
        secrets.create_secret(Name=names.pii_secret(KEY_ID), SecretBinary=bytes(32))
        return cls(**vars(bench), contracts=SchemaStore(s3, names))

    @property
    def active(self) -> StoredContract:
        return self.contracts.active(TOPIC)

    def clear(self, *, raw: bool = True) -> None:
        super().clear(raw=raw)
        if self.catalog.table_exists(naming.curated_table(TOPIC)):
            self.catalog.drop_table(naming.curated_table(TOPIC))
        ensure_table(self.catalog, tables.curated(TOPIC, self.active.contract, "period"))

    def both_hops(self) -> tuple[BatchResult, BatchResult, float]:
        """One batch through both hops, and its seconds."""
        topic, active = load_topic(Repository(ROOT), TOPIC), self.active
        first = Standardize(topic, active.contract.version, active.sha256)
        second = Curate(topic, active, self.contracts, KEY_ID)
        (standardized, a), (curated, b) = self.run(first), self.run(second)
        return standardized, curated, a + b

    def curate(self) -> tuple[BatchResult, float]:
        """One batch of the second hop, and its seconds."""
        return self.run(Curate(load_topic(Repository(ROOT), TOPIC), self.active, self.contracts, KEY_ID))

    def seeds_both_hops(self) -> float:
        """The straightforward jobs over the same RAW, into tables of their own; their seconds."""
        first = self.seeds_way()
        shape = ", ".join(f"{name} {kind}" for name, kind in seeds_way.CURATED.items())
        self.spark.sql("drop table if exists ops_db.baseline_curated")
        self.spark.sql(
            f"create table ops_db.baseline_curated ({shape}) using iceberg "
            "partitioned by (period_reference, days(publish_time)) "
            "tblproperties ('format-version' = '2', 'write.merge.mode' = 'merge-on-read')"
        )
        _, second = timed(lambda: seeds_way.curate(self.spark, "ops_db.baseline", "ops_db.baseline_curated"))
        return first + second

    def curated_history(self, rows: int, offset: int = 0) -> None:
        """Curated rows over 24 periods, without going through the hops."""
        target = ".".join(naming.curated_table(TOPIC))
        self.spark.sql(f"""
            insert into {target} (_key_hash, idempotency_key, message_id, publish_time, period_reference,
                first_message_id, first_period_reference, first_seen_ts, last_updated_ts, contract_version,
                event_timestamp, user_id, event_type, session_id, duration_ms, value, is_test, user_agent)
            select old_hash(id), concat('old-', id), concat('history-', id), moment, period,
                concat('history-', id), period, moment, moment, '1.0',
                moment, sha2(cast(id as string), 256), 'view', concat('session-', id div 9), id, id / 100.0, false, 'x'
            from (select id, moment, date_format(moment, 'yyyy-MM') as period from (
                select id, timestamp_seconds(1704067200 + (id % 730) * 86400 + id % 86400) as moment
                from range({offset}, {offset + rows})))
        """)

    def standardized_corrections(self, rows: int, share: float, *, of: int, offset: int) -> None:
        """Fresh events of one month into Standardized, a share of them corrections over all of history."""
        target = ".".join(naming.standardized_table(TOPIC))
        paths = {column.payload_path: column.name for column in self.active.contract.payload_columns}
        texts = {
            "event.timestamp": "'2026-02-03T04:05:06Z'",
            "event.userId": "concat('user-', id)",
            "event.eventType": "'view'",
            "sessionId": "concat('session-', id div 9)",
            "event.durationMs": "cast(id as string)",
            "event.value": "concat(cast(id as string), '.10')",
            "event.metadata.userAgent": "'x'",
        }
        self._add_columns(paths)
        names = ", ".join(f"`{columns.column_name(path)}`" for path in texts)
        every = int(1 / share)
        self.spark.sql(f"""
            insert into {target} (message_id, topic_name, publish_time, ingestion_ts, idempotency_key,
                period_reference, {names})
            select concat('message-', id), '{TOPIC}', moment, id,
                if(id % {every} = 0, concat('old-', pmod(id * 7919, {of})), concat('key-', id)), '2026-02',
                {", ".join(texts.values())}
            from (select id, timestamp_seconds(1769904000 + id % 2000000) as moment
                  from range({offset}, {offset + rows}))
        """)

    def _add_columns(self, paths: Mapping[str, str]) -> None:
        table = self.catalog.load_table(naming.standardized_table(TOPIC))
        have = {field.doc for field in table.schema().fields}
        with table.update_schema() as update:
            for path in paths:
                if path not in have:
                    update.add_column(columns.column_name(path), StringType(), doc=path)

    def contender(self, name: str) -> str:
        """A table like Curated that another way works on; it shares the files of history, not what is done to them."""
        curated = self.catalog.load_table(naming.curated_table(TOPIC))
        optional = (field.model_copy(update={"required": False}) for field in curated.schema().fields)
        if self.catalog.table_exists(("ops_db", name)):
            self.catalog.drop_table(("ops_db", name))
        table = self.catalog.create_table(
            ("ops_db", name), Schema(*optional), partition_spec=curated.spec(), properties=curated.properties
        )
        # The same columns in the same order have the same ids, by which files are read.
        assert [each.field_id for each in table.schema().fields] == [
            each.field_id for each in curated.schema().fields
        ]
        return f"ops_db.{name}"

    def share_history(self, contenders: Iterable[str]) -> None:
        """The newest files of Curated belong to the contenders' tables too."""
        curated = self.catalog.load_table(naming.curated_table(TOPIC))
        head = curated.current_snapshot()
        assert head is not None
        files = list(lake.added_files(curated, head.parent_snapshot_id or 0, head.snapshot_id))
        for name in contenders:
            table_files.append(self.catalog.load_table(tuple(name.split("."))), files, {})

    def seeds_merge(self, target: str, months: int | None) -> float:
        """The straightforward MERGE of the newest records of Standardized; its seconds."""
        standardized = self.catalog.load_table(naming.standardized_table(TOPIC))
        head = standardized.current_snapshot()
        assert head is not None
        newest = self.spark.read.format("iceberg").options(
            **{
                "start-snapshot-id": str(head.parent_snapshot_id),
                "end-snapshot-id": str(head.snapshot_id),
            }
        )
        newest.load(".".join(naming.standardized_table(TOPIC))).createOrReplaceTempView("newest")
        return timed(lambda: seeds_way.curate(self.spark, "newest", target, months))[1]

    def duplicates(self, table: str) -> int:
        """How many rows of a table are not the only one of their key."""
        statement = f"select count(*) - count(distinct idempotency_key) from {table}"
        return int(self.spark.sql(statement).collect()[0][0])


def bytes_read(bench: CurateBench, where: str) -> int:
    """How many bytes of Curated a query reads, by the files that its plan names."""
    table = bench.catalog.load_table(naming.curated_table(TOPIC))
    return sum(task.file.file_size_in_bytes for task in table.scan(where).plan_files())
