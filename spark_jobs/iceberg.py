"""An Iceberg table as a job sees it: pinned reads, and a branch that is published by fast-forward.

Reading pinned snapshots is not a nicety: Spark re-evaluates a cached frame whose table was written meanwhile, and
each session caches tables of its own. Both lose or double rows without an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from lean_ops import naming
from lean_ops.errors import RetryableError

BRANCH_PREFIX = "batch_"


class PublishRefusedError(RetryableError):
    """The table's main branch moved since the batch began: nothing was published, the batch starts over."""


class IcebergTable:
    """One table, through the Iceberg that runs inside Spark."""

    def __init__(self, spark: SparkSession, identifier: tuple[str, str]) -> None:
        self._spark = spark
        self.name = ".".join(identifier)
        # A new session does not know its catalogs until one is used.
        spark.sql(f"show namespaces in {naming.CATALOG}")
        self._table: Any = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession,
            f"{naming.CATALOG}.{self.name}",
        )
        self.refresh()

    def refresh(self) -> None:
        """See what others committed. Spark's own cached table is this very object."""
        self._table.refresh()

    @property
    def head(self) -> int:
        """The snapshot that main points to."""
        return int(self._table.currentSnapshot().snapshotId())

    def branch_head(self, branch: str) -> int:
        """The snapshot that a branch points to."""
        self.refresh()
        return int(self._table.snapshot(branch).snapshotId())

    def at(self, snapshot: int) -> DataFrame:
        """The whole table as of a snapshot."""
        return self._reader(versionAsOf=str(snapshot))

    def between(self, start: int, end: int) -> DataFrame:
        """What was appended after `start` up to and including `end`; the same snapshot twice means nothing."""
        if start == end:
            return self.at(end).limit(0)
        return self._reader(**{"start-snapshot-id": str(start), "end-snapshot-id": str(end)})

    def _reader(self, **options: str) -> DataFrame:
        return self._spark.read.format("iceberg").options(**options).load(f"{naming.CATALOG}.{self.name}")

    def open_branch(self, branch: str) -> int:
        """Start a branch at main's head, which is returned. Branches that dead batches left behind go first."""
        for stale in [name for name in self._table.refs() if str(name).startswith(BRANCH_PREFIX)]:
            self._table.manageSnapshots().removeBranch(stale).commit()
        self.refresh()
        head = self.head
        self._table.manageSnapshots().createBranch(branch, head).commit()
        return head

    def append(
        self, frame: DataFrame, token: Mapping[str, str], *, branch: str = "main", **options: str
    ) -> None:
        """Append to a branch; the token lands in the snapshot's summary, also when there are no rows."""
        writer = frame.writeTo(f"{naming.CATALOG}.{self.name}.branch_{branch}").options(**options)
        for key, value in token.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()

    def publish(self, branch: str) -> int:
        """Make the branch main, atomically for all its commits, if main has not moved since it was opened."""
        self.refresh()
        try:
            self._table.manageSnapshots().fastForwardBranch("main", branch).commit()
        except Py4JJavaError as error:
            if "not an ancestor" in str(error.java_exception.getMessage()):
                raise PublishRefusedError(
                    f"{self.name}: main moved while the batch ran; nothing was published", table=self.name
                ) from error
            raise
        self.refresh()
        head = self.head
        self._table.manageSnapshots().removeBranch(branch).commit()
        return head
