"""What the probes say of a crew at work, in trouble, dead, and stopping."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection
from threading import Event

import pytest

from bridge.courier import Courier
from bridge.crew import Crew
from bridge.envelope import Message
from bridge.flow import Limits
from bridge.health import HealthServer
from tests.bridge.harness import eventually


class Silence:
    """A topic on which nothing ever happens, unless a pull is told to fail or to hang."""

    def __init__(self) -> None:
        self.bug = False
        self.asked = Event()
        self.answers = Event()
        self.answers.set()

    def pull(self, _most: int) -> list[Message]:
        self.asked.set()
        self.answers.wait()
        if self.bug:
            raise RuntimeError("a bug")
        time.sleep(0.01)  # an idle pull takes its time
        return []

    def acknowledge(self, messages: Sequence[Message]) -> None: ...
    def give_back(self, messages: Sequence[Message], *, after_seconds: int) -> None: ...
    def send(self, _messages: Iterable[Message]) -> set[str]:
        return set()


class Probe:
    """A crew of two, seen from outside."""

    def __init__(self) -> None:
        self.stopping = Event()
        self.topics = {"orders": Silence(), "events": Silence()}
        self.crew = Crew(
            [
                Courier(topic, silence, silence, Limits(), stopping=self.stopping, clock=time.monotonic)
                for topic, silence in self.topics.items()
            ],
            self.stopping,
        )
        self.server = HealthServer(("127.0.0.1", 0), unhealthy=self.crew.unhealthy, unready=self.crew.unready)

    def get(self, path: str) -> tuple[int, bytes]:
        with closing(HTTPConnection(self.server.url.removeprefix("http://"), timeout=5)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def faults(self, path: str) -> dict[str, str]:
        status, content = self.get(path)
        faults: dict[str, str] = json.loads(content)["faults"]
        assert status == (503 if faults else 200)
        return faults


@pytest.fixture
def probe() -> Iterator[Probe]:
    probe = Probe()
    yield probe
    probe.stopping.set()
    for silence in probe.topics.values():
        silence.answers.set()
    probe.crew.join(5)
    probe.server.shutdown()
    probe.server.server_close()


def test_ready_means_that_every_topic_had_a_round_without_trouble(probe: Probe) -> None:
    probe.topics["orders"].answers.clear()
    probe.crew.start()
    eventually(lambda: probe.faults("/readyz") == {"orders": "no round yet"}, "only orders has to begin")
    probe.topics["orders"].answers.set()
    eventually(lambda: probe.faults("/readyz") == {}, "all are ready")
    assert probe.faults("/healthz") == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_courier_is_unhealthy_and_the_others_go_on(probe: Probe) -> None:
    probe.crew.start()
    probe.topics["orders"].bug = True
    eventually(lambda: probe.faults("/healthz") == {"orders": "its courier is dead"}, "orders is dead")


def test_a_stopping_crew_is_not_ready_and_names_what_does_not_settle(probe: Probe) -> None:
    probe.topics["orders"].answers.clear()
    probe.crew.start()
    assert probe.topics["orders"].asked.wait(5)
    probe.stopping.set()
    assert probe.faults("/readyz") == {"": "stopping"}
    eventually(lambda: probe.crew.join(0) == ["orders"], "events has settled, orders has not")


def test_metrics_are_there_and_nothing_else_is(probe: Probe) -> None:
    probe.crew.start()
    status, content = probe.get("/metrics")
    assert status == 200
    assert b"# TYPE lean_ops_bridge_sent_total counter" in content
    assert probe.get("/")[0] == 404
