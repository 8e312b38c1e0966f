"""Which subscription feeds which topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge import routes
from lean_ops.config.repository import Repository
from lean_ops.errors import ConfigError, LeanOpsError, NotFoundError
from tests import repositories


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return repositories.repository(tmp_path)


def add(repository: Repository, topic: str, source: str = "") -> None:
    text = repositories.topic(topic, f"source:\n  subscription: {source}\n" if source else "")
    (repository.topics_folder / f"{topic}.yaml").write_text(text)


def test_all_topics_with_a_subscription_are_carried(repository: Repository) -> None:
    add(repository, "orders", "orders-sub")
    add(repository, "events", "projects/other/subscriptions/events-sub")
    add(repository, "by_hand")
    assert routes.subscriptions(routes.load(repository, []), "mine") == {
        "events": "projects/other/subscriptions/events-sub",
        "orders": "projects/mine/subscriptions/orders-sub",
    }


def test_a_chosen_list_carries_only_these(repository: Repository) -> None:
    add(repository, "orders", "orders-sub")
    add(repository, "events", "events-sub")
    assert list(routes.subscriptions(routes.load(repository, ["events"]), "mine")) == ["events"]


def test_a_chosen_topic_must_exist_and_have_a_subscription(repository: Repository) -> None:
    add(repository, "by_hand")
    with pytest.raises(NotFoundError, match="no topic 'ordres'"):
        routes.load(repository, ["ordres"])
    with pytest.raises(LeanOpsError, match="'by_hand' has no subscription"):
        routes.subscriptions(routes.load(repository, ["by_hand"]), "mine")


def test_a_short_name_needs_a_project(repository: Repository) -> None:
    add(repository, "orders", "orders-sub")
    with pytest.raises(LeanOpsError, match="project of subscription 'orders-sub' is not known"):
        routes.subscriptions(routes.load(repository, []), None)


def test_two_topics_cannot_share_a_subscription(repository: Repository) -> None:
    add(repository, "events", "shared")
    add(repository, "orders", "projects/mine/subscriptions/shared")
    with pytest.raises(LeanOpsError, match="'events' and 'orders' share"):
        routes.subscriptions(routes.load(repository, []), "mine")


def test_nothing_to_carry_is_an_error(repository: Repository) -> None:
    add(repository, "by_hand")
    with pytest.raises(LeanOpsError, match="no topic has a subscription"):
        routes.subscriptions(routes.load(repository, []), "mine")


def test_a_bad_topic_file_stops_the_start(repository: Repository) -> None:
    add(repository, "orders", "orders-sub")
    (repository.topics_folder / "events.yaml").write_text("topic: events\n")
    with pytest.raises(ConfigError):
        routes.load(repository, [])
