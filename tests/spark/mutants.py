"""Jobs that have something done to them, and what has to become of such a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from lean_ops.aws import table_files
from lean_ops.batch.accounting import UnbalancedError
from spark_jobs.protocol import HeldError
from tests.spark.curated_world import CuratedWorld
from tests.spark.world import World

# Whose attribute is what instead.
Mutant = tuple[Any, str, Any]

sound_append = table_files.append


def appending(change: Callable[[list[DataFile]], list[DataFile]]) -> Mutant:
    """The commit of files, with something done to the list; only the rows' own, which go to a branch."""

    def mutant(
        table: Table, files: list[DataFile], summary: Any, *, branch: str = "main", **others: Any
    ) -> None:
        sound_append(table, files if branch == "main" else change(files), summary, branch=branch, **others)

    return table_files, "append", mutant


def run_mutant(
    world: World | CuratedWorld, monkeypatch: pytest.MonkeyPatch, mutant: Mutant, **changes: Any
) -> None:
    """The mutant must be caught, nothing of it be seen, and nothing go on before somebody has looked."""
    before = world.target.metadata.current_snapshot_id, world.history()
    monkeypatch.setattr(*mutant)
    with pytest.raises(UnbalancedError) as caught:
        world.run(work=world.work(**changes))
    assert caught.value.facts["faults"]
    with pytest.raises(HeldError, match="does not balance"):
        world.run()
    assert (world.target.metadata.current_snapshot_id, world.history()) == before
    world.accept()
