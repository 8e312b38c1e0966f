"""A round: whatever SQS refuses, each message ends acknowledged or given back, and no key is out of order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from threading import Event

import pytest
from google.api_core.exceptions import ServiceUnavailable
from hypothesis import given
from hypothesis import strategies as st

from bridge.courier import RETRY_SECONDS, STUCK_AFTER, Courier
from bridge.envelope import Message
from bridge.flow import Limits

WHEN = datetime(2026, 2, 6, tzinfo=UTC)


def messages(keys: Iterable[str]) -> list[Message]:
    return [Message(f"r{n}", f"m{n}", WHEN, b"{}", key) for n, key in enumerate(keys)]


class Shelf:
    """A source with fixed messages, which remembers how each was settled."""

    def __init__(self, *pulls: list[Message]) -> None:
        self.pulls = list(pulls)
        self.acknowledged: list[Message] = []
        self.given_back: dict[int, list[Message]] = defaultdict(list)

    def pull(self, _most: int) -> list[Message]:
        return self.pulls.pop(0) if self.pulls else []

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self.acknowledged += messages

    def give_back(self, messages: Sequence[Message], *, after_seconds: int) -> None:
        self.given_back[after_seconds] += messages


class Desk:
    """A destination that confirms what it likes, and remembers what it was offered."""

    def __init__(self, likes: Callable[[Message], bool] = lambda _: True) -> None:
        self.likes = likes
        self.offers: list[list[Message]] = []

    def send(self, messages: Iterable[Message]) -> Collection[str]:
        self.offers.append(list(messages))
        return {message.receipt for message in self.offers[-1] if self.likes(message)}


def a_courier(
    shelf: Shelf, desk: Desk, stopping: Event | None = None, clock: Callable[[], float] = lambda: 0.0
) -> Courier:
    return Courier("topic", shelf, desk, Limits(), stopping=stopping or Event(), clock=clock)


@given(st.lists(st.tuples(st.sampled_from("abc") | st.just(""), st.booleans())))
def test_every_message_is_settled_and_nothing_overtakes_a_refused_one(pulled: list[tuple[str, bool]]) -> None:
    all_messages = messages(key for key, _ in pulled)
    refused = {m.receipt for m, (_, fine) in zip(all_messages, pulled, strict=True) if not fine}
    shelf, desk = Shelf(all_messages), Desk(lambda message: message.receipt not in refused)
    a_courier(shelf, desk).round()

    back = shelf.given_back[RETRY_SECONDS]
    assert sorted(all_messages, key=id) == sorted(shelf.acknowledged + back, key=id)
    sent = [message for offer in desk.offers for message in offer]
    for key in "abc":
        lane = [message for message in all_messages if message.ordering_key == key]
        taken = [message for message in lane if message in shelf.acknowledged]
        assert taken == lane[: len(taken)]
        assert [message for message in sent if message.ordering_key == key] == lane[: len(taken) + 1]
    for offer in desk.offers:
        keys = [message.ordering_key for message in offer if message.ordering_key]
        assert len(set(keys)) == len(keys)


def test_a_crash_during_a_send_has_acknowledged_nothing() -> None:
    shelf = Shelf(messages("aab"))

    def crash(_: Message) -> bool:
        raise MemoryError

    with pytest.raises(MemoryError):
        a_courier(shelf, Desk(crash)).round()
    assert shelf.acknowledged == []


def test_a_stop_lets_the_send_in_flight_end_and_gives_the_rest_back_at_once() -> None:
    stopping = Event()
    shelf = Shelf(messages("aaa"))

    def confirm_while_a_stop_arrives(_: Message) -> bool:
        stopping.set()
        return True

    a_courier(shelf, Desk(confirm_while_a_stop_arrives), stopping).run()
    assert [message.receipt for message in shelf.acknowledged] == ["r0"]
    assert [message.receipt for message in shelf.given_back[0]] == ["r1", "r2"]


def test_no_send_starts_after_half_the_lease() -> None:
    moments = iter([0.0, 0.0, 1.0, Limits().lease_seconds / 2])
    shelf, desk = Shelf(messages("aaa")), Desk()
    a_courier(shelf, desk, clock=lambda: next(moments)).round()
    assert len(desk.offers) == 1
    assert len(shelf.given_back[RETRY_SECONDS]) == 2


def test_trouble_is_told_until_a_round_is_fine() -> None:
    shelf, desk = Shelf(messages("ab"), messages("ab"), []), Desk(lambda message: message.ordering_key == "a")
    courier = a_courier(shelf, desk)
    assert courier.trouble == "no round yet"
    assert courier.round(), "one of two moved"
    assert courier.trouble == "1 of 2 messages given back"
    desk.likes = lambda _: False
    assert not courier.round(), "nothing moved: time for a pause"
    assert courier.round(), "nothing to move is fine"
    assert courier.trouble is None


def test_an_error_of_pubsub_is_trouble_and_not_the_end() -> None:
    stopping = Event()
    shelf = Shelf()
    failures = [ServiceUnavailable("not now")]

    def pull(_: int) -> list[Message]:
        if failures:
            raise failures.pop()
        stopping.set()
        return []

    shelf.pull = pull  # type: ignore[method-assign]
    courier = a_courier(shelf, Desk(), stopping)
    courier.run()
    assert courier.trouble is None
    assert not failures


@pytest.mark.parametrize(("passed", "stuck"), [(STUCK_AFTER, False), (STUCK_AFTER + 1, True)])
def test_a_courier_is_stuck_when_a_round_outlasts_every_timeout(passed: float, stuck: bool) -> None:
    now = [0.0]
    courier = a_courier(Shelf(), Desk(), clock=lambda: now[0])
    now[0] = passed
    assert courier.stuck() is stuck
