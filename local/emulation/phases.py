"""The phases of an emulation, each through the real path: queues, functions, Firehose, RAW, and runs of Airflow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import repeat

from lean_ops.aws import backlog, clients, schema_ports, sending
from lean_ops.aws.gate_facts import gate_reader
from lean_ops.aws.handing_in import Desk
from lean_ops.aws.registry import Registry
from lean_ops.config.repository import Repository, load_topics
from lean_ops.config.topics import TopicSpec
from lean_ops.errors import LeanOpsError
from lean_ops.naming import dag_id
from lean_ops.runtime import Runtime
from local.airflow_api import AirflowApi
from local.emulation.injection import InjectionSpec
from local.emulation.ledger import Ledger
from local.emulation.message import Message
from local.emulation.progress import Progress
from local.emulation.traffic import SHARES, Day, Traffic

CONTRACTED = ("orders", "events")  # payments stays without a contract, and must stay skipped
_RUN_SECONDS = 3600.0
_DRAIN_SECONDS = 120.0
_DEPLOY_SECONDS = 300.0


@dataclass(frozen=True)
class Emulation:
    """One emulation on a running stack."""

    runtime: Runtime
    repository: Repository
    injection: InjectionSpec
    ledger: Ledger
    progress: Progress
    closed: dict[str, str] = field(default_factory=dict)

    def day(self, day: Day) -> None:
        """Send a day's messages, wait until they are in RAW, and let the DAGs run."""
        setting = self.ledger.setting
        traffic = Traffic(setting.seed, setting.anchor, setting.records, self.injection)
        with self.progress.step(day, "truth written down") as note:
            for topic in SHARES:
                self.ledger.record(day, topic, traffic.of(day, topic))
            note.text = f"{sum(traffic.size(day, topic) for topic in SHARES)} messages"
        with self.progress.step(day, f"sent to {setting.entry}") as note:
            note.text = _listed({topic: self._send(day, topic, setting.entry) for topic in SHARES})
        with self.progress.step(day, "queues and buffers drained"):
            left = backlog.drain(backlog.gauge(self.runtime), patience_seconds=_DRAIN_SECONDS)
            if left.total:
                raise LeanOpsError("stuck on the way to RAW: " + "; ".join(left.stuck()))
        self.process(day)

    def schema(self) -> None:
        """Hand in a contract with faults, see it refused, then the sound ones; process what has waited."""
        with self.progress.step("schema", "orders: a faulty contract into pending/") as note:
            note.text = f"refused, {self._refused('orders')} findings"
        for topic in CONTRACTED:
            with self.progress.step("schema", f"{topic}: the sound one into pending/") as note:
                file = self._desk.hand_in(topic, self._contract(topic), "emulation")
                note.text = self._desk.await_outcome(file, _DEPLOY_SECONDS)
                if note.text != "activated":
                    raise LeanOpsError(
                        f"the contract of {topic} is {note.text}",
                        next_step=f"lean-ops schema status {topic}",
                    )
        self.ledger.deploy(CONTRACTED)
        self.process("schema")

    def process(self, phase: str) -> None:
        """Runs of all topic DAGs until every open topic has caught up; then what the gates said."""
        with self.progress.step(phase, "DAG runs") as note:
            topics, rounds = list(SHARES), 0
            while topics:
                rounds += 1
                self._runs(phase, topics)
                topics = [topic for topic in self._open if self._waiting(topic)]
            skipped = {topic: reason.partition(":")[0] for topic, reason in self.closed.items()}
            processed = [topic for topic in SHARES if topic not in skipped]
            said = [f"{', '.join(processed)} processed"] if processed else []
            note.text = "; ".join([*said, *(f"{topic}: {why}" for topic, why in skipped.items())])
        wrong = [topic for topic in skipped if topic in self._open]
        wrong += [topic for topic in processed if topic not in self._open]
        if wrong:
            raise LeanOpsError(f"the gates of {', '.join(wrong)} are not as they should be: {note.text}")

    def _runs(self, phase: str, topics: list[str]) -> None:
        run = f"emulate__{phase}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"
        for topic in topics:
            self._airflow.trigger(dag_id(topic), run)
        for topic in topics:
            self._airflow.wait(dag_id(topic), run, _RUN_SECONDS)
            # A run of the schedule may have done the work meanwhile; then ours had nothing left to do.
            reason = self._airflow.gate(dag_id(topic), run)
            skipped = self._airflow.tasks(dag_id(topic), run)["schema_gate"] == "skipped"
            if skipped and not (topic in self._open and reason == "no new data"):
                self.closed[topic] = reason
            else:
                self.closed.pop(topic, None)

    @property
    def _open(self) -> frozenset[str]:
        return self.ledger.deployed

    def _waiting(self, topic: str) -> bool:
        facts = gate_reader(self.runtime).facts(self._topics[topic])
        held = facts.standardize.held or (facts.curate.held if facts.curate else "")
        if held:
            raise LeanOpsError(f"{topic}: a data fault waits for a decision: {held}")
        return bool(facts.standardize.waiting or (facts.curate and facts.curate.waiting))

    def _send(self, day: Day, topic: str, entry: str) -> int:
        """First every message once, then the copies that the network makes of them."""

        def bodies(times: Callable[[Message], int]) -> Iterator[str]:
            for message in self.ledger.messages(topic, day):
                yield from repeat(message.body, times(message))

        sent = self._deliver(entry, topic, bodies(lambda message: not message.dead_letter))
        sent += self._deliver("sqs", topic, bodies(lambda message: bool(message.dead_letter)))
        sent += self._deliver(entry, topic, bodies(lambda message: message.again))
        return sent + self._deliver("firehose", topic, bodies(lambda message: message.forgotten))

    def _deliver(self, entry: str, topic: str, bodies: Iterator[str]) -> int:
        send = sending.to_queue if entry == "sqs" else sending.to_firehose
        *_, state = sending.Sent(), *send(self.runtime, topic, (body.encode() for body in bodies))
        if state.refused:
            raise LeanOpsError(f"{state.refused} messages of {topic} could not be sent to {entry}")
        return state.sent

    def _refused(self, topic: str) -> int:
        contract = json.loads(self._contract(topic))
        columns = [column | {"type": "decimal"} for column in contract["payload_columns"][2:3]]
        faulty = contract | {"version": "one", "payload_columns": columns}
        file = self._desk.hand_in(topic, json.dumps(faulty).encode(), "emulation")
        outcome = self._desk.await_outcome(file, _DEPLOY_SECONDS)
        failure = self._desk.folder(topic).failure()
        if outcome != "rejected" or failure is None:
            raise LeanOpsError(f"a faulty contract of {topic} was {outcome}, not refused")
        return len(failure["findings"])

    def _contract(self, topic: str) -> bytes:
        return self.repository.contract_file(topic).read_bytes()

    @cached_property
    def _topics(self) -> dict[str, TopicSpec]:
        return load_topics(self.repository).checked()

    @cached_property
    def _airflow(self) -> AirflowApi:
        return AirflowApi(clients.local_stack(self.runtime).endpoint("airflow"), self.runtime.home)

    @cached_property
    def _desk(self) -> Desk:
        dynamodb = clients.client(self.runtime, "dynamodb", schema_ports.RETRYING)
        registry = Registry(dynamodb, self.runtime.names)
        return Desk(clients.client(self.runtime, "s3", schema_ports.RETRYING), registry, self.runtime.names)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{topic} {count}" for topic, count in Counter(counts).items())
