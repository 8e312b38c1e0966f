"""The topics of a Pub/Sub project are listed for the functions, which may not talk to Pub/Sub."""

from __future__ import annotations

import pytest

from lean_ops.aws.discovery import Listings
from lean_ops.config.repository import Repository, load_environment
from tests.bridge.harness import PROJECT, World, start

pytestmark = pytest.mark.needs("go")


def test_a_listing_names_every_topic_of_the_project(world: World) -> None:
    for name in ("Order-Items", "shipments"):
        world.pubsub.create(f"{world.topic}-{name}")
    arguments = ("--env", "local", "--project", PROJECT, "--root", str(world.root))
    with start("bridge.discover", *arguments, variables=world.variables) as lister:
        assert lister.wait(60) == 0
    names = load_environment(Repository(world.root), "local").names
    listing = Listings(world.s3, names).read(f"discovery/{PROJECT}.json")
    ours = {topic for topic in listing.topics if world.topic in topic}
    assert ours == {
        f"projects/{PROJECT}/topics/{world.topic}{suffix}" for suffix in ("", "-Order-Items", "-shipments")
    }
