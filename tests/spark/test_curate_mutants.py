"""A second hop that loses, doubles or mistakes rows publishes nothing; a changed value is found by `verify --deep`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lean_ops.aws import position_deletes
from lean_ops.aws.curated_verification import CuratedVerifier
from lean_ops.aws.record_errors import ErrorLog
from lean_ops.batch.curated_books import CuratedBooks
from spark_jobs import merge as merges
from spark_jobs import records
from spark_jobs.merge import Merge
from spark_jobs.record_tasks import Rules
from tests.spark.curated_streams import Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf, check
from tests.spark.mutants import Mutant, appending, run_mutant

pytestmark = pytest.mark.spark

sound_rows, sound_merge, sound_later, sound_deletes = (
    Rules.rows, merges.merge, merges.later, position_deletes.write,
)  # fmt: skip


def reshaped(change: Callable[[pa.Table], pa.Table]) -> Mutant:
    """Something is done to the rows before they are written."""
    return Rules, "rows", lambda *arguments: change(sound_rows(*arguments))


def merged(change: Callable[[Merge], Merge]) -> Mutant:
    """Something is done to the decision on who wins."""
    return records, "merge", lambda *arguments: change(sound_merge(*arguments))


def renamed(rows: pa.Table, name: str, texts: list[str]) -> pa.Table:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), pa.array(texts, rows.schema.field(index).type))


def swapped_keys(rows: pa.Table) -> pa.Table:
    keys = rows["idempotency_key"].to_pylist()
    return renamed(rows, "idempotency_key", [*keys[1:], keys[0]])


def forgets_the_old(files: Any, doomed: Any) -> Any:
    return sound_deletes(files, list(doomed)[1:])


def sloppy_later(versions: Any, others: Any) -> Any:
    """Older ones win, newer ones lose."""
    return sound_later(others, versions)


def rolled(found: Merge) -> Merge:
    """Every winner is told the first version of another one's key."""
    order = pa.array(np.roll(np.arange(len(found.winners)), 1))
    return found._replace(winners_firsts=found.winners_firsts.take(order))


MUTANTS: dict[str, Mutant] = {
    "an older version wins": (merges, "later", sloppy_later),
    "first versions are mixed up": merged(rolled),
    "a row is looked for in the wrong place": (
        position_deletes,
        "write",
        lambda files, doomed: sound_deletes(
            files,
            [each._replace(positions=(each.positions + 1) % each.file.record_count) for each in doomed],
        ),
    ),
    "a row is lost": reshaped(lambda rows: rows.slice(1)),
    "all rows are lost": reshaped(lambda rows: rows.slice(0, 0)),
    "a row comes twice": reshaped(lambda rows: pa.concat_tables([rows, rows.slice(0, 1)])),
    "a row comes twice, another is lost": reshaped(
        lambda rows: pa.concat_tables([rows.slice(1), rows.slice(1, 1)])
    ),
    "rows swap their keys": reshaped(swapped_keys),
    "a row has an id that nobody sent": reshaped(
        lambda rows: renamed(rows, "message_id", ["nobody's", *rows["message_id"].to_pylist()[1:]])
    ),
    "a file is not committed": appending(lambda files: files[1:]),
    "a file is committed twice": appending(lambda files: [*files, files[0]]),
    "a row that is replaced stays": (position_deletes, "write", forgets_the_old),
    "a winner is forgotten": merged(
        lambda found: found._replace(winners=found.winners[1:], winners_firsts=found.winners_firsts.slice(1))
    ),
}
NO_ERRORS: Mutant = (ErrorLog, "append", lambda *_: None)


@pytest.fixture(scope="module")
def waiting(curated_world_of: CuratedWorldOf) -> CuratedWorld:
    """A topic with a published batch, and corrections, new keys and errors that wait for the next one."""
    world, supply = curated_world_of(), Supply(61)
    world.append(supply.take(40))
    world.catch_up()
    world.append(supply.take(40))
    return world


@pytest.mark.parametrize("name", MUTANTS)
def test_a_batch_that_does_not_balance_is_not_published(
    waiting: CuratedWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run_mutant(waiting, monkeypatch, MUTANTS[name])


def test_after_all_these_the_sound_job_does_the_batch(waiting: CuratedWorld) -> None:
    """In the order of this file: what the mutants left behind harms nobody."""
    assert waiting.catch_up()
    check(waiting)


@pytest.mark.faults
@pytest.mark.parametrize("name", ["a file is not committed", "a row that is replaced stays"])
def test_nor_is_one_whose_rows_are_written_by_tasks(
    curated_world_of: CuratedWorldOf, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world, supply = curated_world_of(), Supply(62)
    world.append(supply.take(40))
    world.catch_up()
    world.append(supply.take(40))
    run_mutant(world, monkeypatch, MUTANTS[name], driver_rows=-1)


def test_an_error_that_is_not_written_is_missed(
    curated_world_of: CuratedWorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, supply = curated_world_of(), Supply(64)
    world.append(supply.take(40))
    world.catch_up()
    world.append(supply.take(40))
    run_mutant(world, monkeypatch, NO_ERRORS)


BEHIND_THE_AUDIT = [
    *(MUTANTS[name] for name in ("a row is lost", "a row comes twice", "rows swap their keys")),
    NO_ERRORS,
]


@pytest.mark.parametrize("mutant", BEHIND_THE_AUDIT)
def test_what_an_audit_overlooked_is_found_by_verify(
    curated_world_of: CuratedWorldOf, monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    world = curated_world_of()
    world.append(Supply(63).take(40))
    with monkeypatch.context() as patch:
        patch.setattr(*mutant)
        patch.setattr(CuratedBooks, "faults", lambda _: [])
        assert world.run() is not None
    checks = CuratedVerifier(world.lake.runtime, world.topic).verify().checks
    assert not all(each.passed for each in checks)


def test_a_sound_topic_passes(curated_world_of: CuratedWorldOf) -> None:
    world = curated_world_of()
    world.append(Supply(63).take(40))
    world.catch_up()
    assert all(each.passed for each in CuratedVerifier(world.lake.runtime, world.topic).verify().checks)
