"""Traffic without end, a few messages a second, for whoever wants to watch: `lean-ops local up --traffic`.

Round after round sends the three days of an emulation, each round with keys of its own. The contracts are handed in
first, as a person would; payments stays without one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, count, islice, repeat, zip_longest
from pathlib import Path

from lean_ops import runtime as runtimes
from lean_ops.aws import clients, schema_ports, sending
from lean_ops.aws.handing_in import Desk
from lean_ops.aws.registry import Registry
from lean_ops.config.repository import Repository
from lean_ops.runtime import Runtime
from local.emulation import injection
from local.emulation.ledger import DAYS, Ledger
from local.emulation.message import Message
from local.emulation.phases import CONTRACTED
from local.emulation.traffic import SHARES, Traffic, anchor_of

_RECORDS = 300
_AT_ONCE = 10
_PAUSE_SECONDS = 2.0


def main(root: Path) -> None:
    """A child of the supervisor, which ends it."""
    runtime, repository = runtimes.from_variables(os.environ), Repository(root)
    Ledger(runtime.home / "emulation").go_live()
    dynamodb = clients.client(runtime, "dynamodb", schema_ports.RETRYING)
    s3 = clients.client(runtime, "s3", schema_ports.RETRYING)
    desk = Desk(s3, Registry(dynamodb, runtime.names), runtime.names)
    for topic in CONTRACTED:
        desk.hand_in(topic, repository.contract_file(topic).read_bytes(), "traffic")
    messages = endless(int(time.time()))
    while chunk := list(islice(messages, _AT_ONCE)):
        for topic in SHARES:
            _send(runtime, topic, [message for message in chunk if message.topic == topic])
        time.sleep(_PAUSE_SECONDS)


def endless(seed: int) -> Iterator[Message]:
    """Round after round, the topics mixed as they would be."""
    shares = injection.load(injection.DEFAULT_FILE)
    for number in count(seed):
        traffic = Traffic(number, anchor_of(datetime.now(UTC).date()), _RECORDS, shares)
        for day in DAYS:
            side_by_side = zip_longest(*(traffic.of(day, topic) for topic in SHARES))
            yield from (message for message in chain.from_iterable(side_by_side) if message is not None)


def _send(runtime: Runtime, topic: str, messages: list[Message]) -> None:
    bodies = [body for message in messages for body in repeat(message.body.encode(), 1 + message.again)]
    forgotten = [body for message in messages for body in repeat(message.body.encode(), message.forgotten)]
    for _ in chain(sending.to_queue(runtime, topic, bodies), sending.to_firehose(runtime, topic, forgotten)):
        continue


if __name__ == "__main__":
    main(Path(sys.argv[1]))
