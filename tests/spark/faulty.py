"""Steps that something happens in, and leases as a job sees them that comes when another one is dead or asleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Literal, NamedTuple

from lean_ops.aws.leases import Claim, Leases
from lean_ops.resources import STATE_TABLES
from tests.spark.world import Silent, World

LATER_MILLIS = 600_000


class Place(NamedTuple):
    """Right before or right after the effect of the nth step of a run."""

    step: int
    when: Literal["before", "after"]


class Injected(Exception):  # noqa: N818 - it stands for any error at all
    """What a test lets happen."""


def fail() -> None:
    raise Injected


class Interrupted(Silent):
    """Does something at one place of a run. `names` are the steps that were begun, in order."""

    def __init__(self, place: Place | None = None, act: Callable[[], None] = fail) -> None:
        super().__init__()
        self.names: list[str] = []
        self._place, self._act = place, act

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        number = len(self.names)
        self.names.append(name)
        with super().__call__(name):
            self._at(Place(number, "before"))
            yield
            self._at(Place(number, "after"))

    def _at(self, place: Place) -> None:
        if place == self._place:
            self._act()


class Crashing(Interrupted):
    """Fails as soon as rows are staged that nobody can see yet: the most that can be lost."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def _at(self, _place: Place) -> None:
        refs = self._world.standardized.refs()
        if any(ref.snapshot_id != refs["main"].snapshot_id for ref in refs.values()):
            fail()


def effects(world: World) -> list[str]:
    """The steps of a clean run, which list every effect of the job in order."""
    steps = Interrupted()
    assert world.run(steps) is not None, "a clean run of nothing"
    return steps.names


def places(steps: list[str]) -> list[Place]:
    """Every place where a run can be interrupted."""
    return [Place(number, when) for number in range(len(steps)) for when in ("before", "after")]


class Pause:
    """Stops a thread at one place until it is told to go on."""

    def __init__(self) -> None:
        self.reached, self._go_on = Event(), Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self._go_on.wait(300), "nobody woke the sleeper"

    def wake(self) -> None:
        self._go_on.set()


class LaterLeases(Leases):
    """The leases as they are for one who comes ten minutes later: whoever sleeps or is dead has lost his."""

    def acquire(self, name: str, owner: str, seconds: float, now: int) -> Claim:
        return super().acquire(name, owner, seconds, now + LATER_MILLIS)


class BriefLeases(Leases):
    """Leases that are over as soon as they are granted, by the holder's own clock."""

    def acquire(self, name: str, owner: str, seconds: float, now: int) -> Claim:
        return super().acquire(name, owner, 0 * seconds, now)


def later(world: World) -> Leases:
    return LaterLeases(world.lake.dynamodb, world.lake.runtime.names)


def forget_everything(world: World) -> None:
    """All items of all state tables are lost."""
    dynamodb, names = world.lake.dynamodb, world.lake.runtime.names
    for table in STATE_TABLES:
        keys = [key for key in (table.partition_key, table.sort_key) if key]
        name = names.state_table(table.name)
        for page in dynamodb.get_paginator("scan").paginate(TableName=name):
            for item in page["Items"]:
                dynamodb.delete_item(TableName=name, Key={key: item[key] for key in keys})


def everything(world: World) -> dict[str, Any]:
    """All that must not change when somebody is refused."""
    table = world.standardized
    return {
        "head": table.metadata.current_snapshot_id,
        "columns": [(field.field_id, field.name, field.doc) for field in table.schema().fields],
        "rows": world.rows(),
        "faults": world.faults(),
        "history": world.history(),
        "drift": world.drift(),
    }
