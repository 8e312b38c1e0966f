"""Killed anywhere, overtaken by a later upload, or woken too late: the facts still tell what is to be done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from lean_ops import naming
from lean_ops.aws.leases import LeaseHeldError, LeaseLostError
from lean_ops.aws.registry import Status
from lean_ops.contracts import contract_file
from lean_ops.naming import Names
from tests.repositories import column
from tests.state.deploying import (
    Interrupted,
    KilledError,
    LaterLeases,
    NeverReleased,
    Place,
    World,
    make_world,
    orders,
    places,
)


@pytest.fixture
def world(dynamodb: Any, names: Names, tmp_path: Path) -> World:
    return make_world(dynamodb, names, tmp_path)


def first(topic: str) -> str:
    return orders("1.0", column("quantity", "int"), topic=topic)


def second(topic: str) -> str:
    return orders("1.1", column("quantity", "bigint"), column("city"), topic=topic)


def third(topic: str) -> str:
    return orders("1.2", column("quantity", "bigint"), column("city"), column("town"), topic=topic)


def faulty(topic: str) -> str:
    return orders("1.1", column("quantity", "itn"), topic=topic)


def first_of_all(world: World, topic: str) -> None:
    world.hand_in(first(topic), topic)


def evolution(world: World, topic: str) -> None:
    world.deployed(first(topic), topic)
    world.hand_in(second(topic), topic)


def rejection(world: World, topic: str) -> None:
    world.deployed(first(topic), topic)
    world.hand_in(faulty(topic), topic)


def rollback(world: World, topic: str) -> None:
    evolution(world, topic)
    world.deploy(topic)
    world.hand_in(first(topic), topic, intent="rollback")


SCENARIOS = [
    rejection,
    pytest.param(evolution, marks=pytest.mark.faults),
    pytest.param(first_of_all, marks=pytest.mark.faults),
    pytest.param(rollback, marks=pytest.mark.faults),
]


def outcome(world: World, topic: str) -> dict[str, Any]:
    """All that a deployment leaves behind, with the topic's name and the times left out."""
    entry = world.entry(topic)
    return {
        "entry": (entry.status, entry.open, entry.version, entry.error.replace(topic, "")),
        "files": sorted(name.partition("-2")[0] for name in world.files(topic)),
        "columns": world.columns(topic),
        "versions": sorted(
            (row["version"], row["previous_version"] or "", row["classification"])
            for row in world.history("schema_versions", topic)
        ),
        "drift": sorted(
            (row["action"], row["column_name"], row["new_value"] or "")
            for row in world.history("drift_log", topic)
        ),
    }


def assert_no_gate_is_open_without_tables(world: World, topic: str) -> None:
    entry = world.entry(topic)
    if not entry.processing_enabled:
        return
    contract = contract_file.read("", world.files(topic)["active/schema.json"]).checked()
    assert {each.name for each in contract.payload_columns} <= set(world.columns(topic))
    assert world.catalog.table_exists(naming.standardized_table(topic))
    assert world.catalog.table_exists(naming.raw_table(topic))
    assert entry.sha256 is not None
    assert entry.version is not None
    assert world.store.pinned(topic, entry.version, entry.sha256), "a plan must find its contract"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_killed_between_any_two_steps_the_next_one_finishes_the_job(
    world: World, scenario: Callable[[World, str], None]
) -> None:
    clean = Interrupted()
    scenario(world, world.onboard("unharmed"))
    world.deploy("unharmed", clean)
    expected, told = outcome(world, "unharmed"), len(world.alerts())
    assert len(clean.names) >= 6
    for place in places(clean.names):
        topic = world.onboard(f"killed_{place.step}")
        scenario(world, topic)
        with pytest.raises(KilledError):
            world.deploy(topic, Interrupted(place), NeverReleased)
        assert_no_gate_is_open_without_tables(world, topic)
        world.deploy(topic, leases=LaterLeases)
        assert outcome(world, topic) == expected, (place, clean.names[place.step])
        # Told twice rather than never, where it was killed with the alert out and the file still there.
        again = clean.names[place.step] == "alert"
        assert len(world.alerts()) == told + again, place


def test_a_later_upload_wins_wherever_it_comes(world: World) -> None:
    clean = Interrupted()
    evolution(world, world.onboard("unharmed"))
    world.deploy("unharmed", clean)
    for place in places(clean.names):
        topic = world.onboard(f"overtaken_{place.step}")
        evolution(world, topic)
        world.deploy(topic, Interrupted(place, lambda topic=topic: world.hand_in(third(topic), topic)))
        world.deploy(topic)  # the event of the second upload
        entry, files = world.entry(topic), world.files(topic)
        assert (entry.version, entry.status, entry.open) == ("1.2", Status.READY, True), place
        assert files["active/schema.json"] == third(topic).encode()
        assert "pending/schema.json" not in files
        assert_no_gate_is_open_without_tables(world, topic)


def test_a_corrected_upload_of_the_same_version_wins_until_the_first_is_in_force(world: World) -> None:
    steps = Interrupted()
    evolution(world, world.onboard("unharmed"))
    world.deploy("unharmed", steps)
    topic = world.onboard("corrected")
    evolution(world, topic)
    corrected = orders("1.1", column("quantity", "bigint"), column("town"), topic=topic)
    place = Place(steps.names.index("activate"), "before")
    world.deploy(topic, Interrupted(place, lambda: world.hand_in(corrected, topic)))
    assert (world.entry(topic).version, world.files(topic)["active/schema.json"]) == (
        "1.1",
        corrected.encode(),
    )
    assert [row["version"] for row in world.history("schema_versions", topic)] == ["1.0", "1.1"]


def test_a_refusal_never_covers_the_success_of_a_later_upload(world: World) -> None:
    topic = world.onboard("orders")
    world.hand_in("{", topic)
    place = Place(1, "after")
    world.deploy(topic, Interrupted(place, lambda: world.hand_in(first(topic), topic)))
    assert (world.entry(topic).status, world.entry(topic).open) == (Status.READY, True)
    assert world.places(topic) == ["active"]


def test_two_events_at_once_do_the_work_once(world: World) -> None:
    topic = world.onboard("orders")
    world.hand_in(first(topic), topic)
    inside, go_on = Event(), Event()

    def hold() -> None:
        inside.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(world.deploy, topic, Interrupted(Place(1, "before"), hold))
        assert inside.wait(60)
        with pytest.raises(LeaseHeldError):
            world.deploy(topic)
        go_on.set()
        assert running.result().outcome == "activated"
    assert world.deploy(topic).outcome == "nothing"


@pytest.mark.faults
def test_a_zombie_changes_nothing_once_another_has_gone_on(world: World) -> None:
    clean = Interrupted()
    evolution(world, world.onboard("unharmed"))
    world.deploy("unharmed", clean)
    for number, name in enumerate(clean.names):
        topic = world.onboard(f"asleep_{number}")
        evolution(world, topic)

        def overtaken(topic: str = topic) -> None:
            world.deploy(topic, leases=LaterLeases)
            world.hand_in(third(topic), topic)
            world.deploy(topic, leases=LaterLeases)

        # Asleep inside the step: its guard has passed, and only the effect's own condition is left.
        with suppress(LeaseLostError):
            world.deploy(topic, Interrupted(Place(number, "before"), overtaken), NeverReleased)
        entry, files = world.entry(topic), world.files(topic)
        assert (entry.version, entry.status) == ("1.2", Status.READY), name
        assert files["active/schema.json"] == third(topic).encode(), name
        rows = world.history("schema_versions", topic)
        assert sorted(row["version"] for row in rows) == ["1.0", "1.1", "1.2"], name
