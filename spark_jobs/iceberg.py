"""An Iceberg table as a job sees it: pinned reads, and a branch that is published by fast-forward.

Reading pinned snapshots is not a nicety: Spark re-evaluates a cached frame whose table was written meanwhile, and
each session caches tables of its own. Both lose or double rows without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from lean_ops import naming
from lean_ops.errors import RetryableError

BRANCH_PREFIX = "batch_"
_LOST_RACES = frozenset({"CommitFailedException", "ValidationException"})


class PublishRefusedError(RetryableError):
    """The table's main branch moved since the batch began: nothing was published, the batch starts over."""


class IcebergTable:
    """One table, through the Iceberg that runs inside Spark."""

    def __init__(self, spark: SparkSession, identifier: tuple[str, str]) -> None:
        self._spark = spark
        self.name = ".".join(identifier)
        # A new session does not know its catalogs until one is used.
        spark.sql(f"show namespaces in {naming.CATALOG}")
        self.refresh()

    def refresh(self) -> None:
        """See what others committed, in the very object through which Spark reads and writes.

        Loaded anew each time: after half a minute without use Spark's catalog forgets one and takes another.
        """
        self._table: Any = self._spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._spark._jsparkSession, f"{naming.CATALOG}.{self.name}"
        )
        self._table.refresh()

    @property
    def head(self) -> int:
        """The snapshot that main points to."""
        return int(self._table.currentSnapshot().snapshotId())

    def staged(self, branch: str, base: int) -> int:
        """The snapshot of a branch, one commit on top of `base`.

        Whoever writes to a branch that was dropped meanwhile makes a new one, on top of whatever main is then.
        """
        self.refresh()
        snapshot = self._table.snapshot(branch)
        if snapshot is None or snapshot.parentId() != base:
            raise self.refused()
        return int(snapshot.snapshotId())

    def at(self, snapshot: int) -> DataFrame:
        """The whole table as of a snapshot."""
        reader = self._spark.read.format("iceberg").option("versionAsOf", str(snapshot))
        return reader.load(f"{naming.CATALOG}.{self.name}")

    def open_branch(self, branch: str, head: int) -> None:
        """Start a branch at a snapshot. Branches that dead batches left behind go in the same commit."""
        self.refresh()
        with self._races():
            change = self._table.manageSnapshots()
            for stale in [name for name in self._table.refs() if str(name).startswith(BRANCH_PREFIX)]:
                change = change.removeBranch(stale)
            change.createBranch(branch, head).commit()

    def publish(self, branch: str) -> None:
        """Make the branch main, atomically for all its commits, if main has not moved since it was opened."""
        self.refresh()
        with self._races():
            self._table.manageSnapshots().fastForwardBranch("main", branch).removeBranch(branch).commit()

    @contextmanager
    def _races(self) -> Iterator[None]:
        """A branch that is not where it should be, or a commit that came in between, is a race that was lost."""
        try:
            yield
        except IllegalArgumentException as error:
            raise self.refused() from error
        except Py4JJavaError as error:
            if _LOST_RACES.isdisjoint(_causes(error.java_exception)):
                raise
            raise self.refused() from error

    def refused(self) -> PublishRefusedError:
        return PublishRefusedError(
            f"{self.name} was changed while the batch ran; nothing was published",
            next_step="run again: the batch starts over from what is there now",
            table=self.name,
        )


def _causes(error: Any) -> Iterator[str]:
    while error is not None:
        yield str(error.getClass().getSimpleName())
        error = error.getCause()
