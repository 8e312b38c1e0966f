"""Every effect of a job happens inside a step, so that no fault test can forget one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_jobs.iceberg import IcebergTable
from tests.spark.curated_streams import Supply
from tests.spark.curated_world import CuratedWorld, CuratedWorldOf
from tests.spark.streams import RULES, Stream
from tests.spark.world import Silent, World, WorldOf

pytestmark = pytest.mark.spark

EFFECTS: dict[type, tuple[str, ...]] = {
    IcebergTable: ("refresh", "staged", "open_branch", "publish"),
    PyArrowFileIO: ("new_input", "new_output"),
}


class Watch(Silent):
    """Notes what happens between the steps; Spark keeps its own list of the jobs that ran there."""

    def __init__(self, world: World | CuratedWorld) -> None:
        super().__init__()
        self.outside: list[str] = []
        self._spark = world.lake.spark.sparkContext
        self._thread = threading.current_thread()
        self._inside = False
        self._between = f"between the steps of {world.name}"
        self._spark.setJobGroup(self._between, "")

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        with super().__call__(name):
            self._enter(inside=True)
            yield
        self._enter(inside=False)

    def _enter(self, *, inside: bool) -> None:
        self._inside = inside
        self._spark.setJobGroup("inside of a step" if inside else self._between, "")

    def note(self, what: str, **_: Any) -> None:
        # The lease is renewed by a thread of its own.
        if not self._inside and threading.current_thread() is self._thread:
            self.outside.append(what)

    def jobs_outside(self) -> list[int]:
        return list(self._spark.statusTracker().getJobIdsForGroup(self._between))


@pytest.mark.parametrize(
    ("lifo", "on_executors"),
    [
        (False, False),
        pytest.param(True, False, marks=pytest.mark.faults),
        pytest.param(False, True, marks=pytest.mark.faults),
        (True, True),
    ],
)
def test_between_the_steps_nothing_happens(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch, lifo: bool, on_executors: bool
) -> None:
    world = world_of(RULES._replace(lifo=lifo), on_executors=on_executors)
    stream = Stream(61)
    world.append(stream.take(30))
    world.catch_up()
    world.append(stream.take(30))
    watch_a_batch(world, monkeypatch)


@pytest.mark.parametrize("on_executors", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_nor_between_those_of_the_second_hop(
    curated_world_of: CuratedWorldOf, monkeypatch: pytest.MonkeyPatch, on_executors: bool
) -> None:
    world, supply = curated_world_of(on_executors=on_executors), Supply(62)
    world.append(supply.take(40))
    world.catch_up()
    world.append(supply.take(40))
    watch_a_batch(world, monkeypatch)


def watch_a_batch(world: World | CuratedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch does nothing outside of its steps."""
    watch = Watch(world)
    for owner, names in (*EFFECTS.items(), (type(world.lake.catalog), catalog_methods(world.lake.catalog))):
        for name in names:
            monkeypatch.setattr(owner, name, noted(watch, getattr(owner, name)))
    events = world.lake.dynamodb.meta.events
    called = lambda model, **_: watch.note(model.name)  # noqa: E731 - the same object goes in and out
    events.register("before-call.dynamodb", called)
    try:
        assert world.run(watch) is not None
    finally:
        events.unregister("before-call.dynamodb", called)
    # The lease is given back when all is done; if that fails, it expires.
    assert watch.outside == ["UpdateItem"]
    assert watch.jobs_outside() == []


def catalog_methods(catalog: Catalog) -> tuple[str, ...]:
    return tuple(name for name in ("load_table", "commit_table", "create_table") if hasattr(catalog, name))


def noted(watch: Watch, effect: Callable[..., Any]) -> Callable[..., Any]:
    def watched(*arguments: Any, **options: Any) -> Any:
        watch.note(effect.__qualname__)
        return effect(*arguments, **options)

    return watched
