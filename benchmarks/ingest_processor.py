"""Records per second: our processor against idempotency record by record, on the same emulator in one run.

The contender is powertools' own: each record is marked in DynamoDB, put into Firehose, and marked again. Both
take the same deliveries in batches of 500, in turns; the best round of each counts.

    python -m benchmarks.ingest_processor
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from lean_ops.aws import clients
from lean_ops.ingestion.intake import Delivery, Message, prepare, process
from tests.lambdas.world import TOPIC, World, a_world, body

RECORDS, ROUNDS = 500, 3
_TABLE = "per-record-idempotency"


@dataclass(frozen=True)
class Rates:
    """Records per second."""

    ours: float
    per_record: float

    @property
    def ratio(self) -> float:
        return self.ours / self.per_record


def measure() -> Rates:
    with _world() as world:
        contender = _per_record(world)
        ours: list[float] = []
        theirs: list[float] = []
        for number in range(ROUNDS):
            ours.append(_rate(lambda batch: _ours(world, batch), _deliveries(f"a{number}")))
            theirs.append(_rate(contender, _deliveries(f"b{number}")))
        assert len(world.firehose.message_ids) == 2 * ROUNDS * RECORDS, "both delivered everything"
    return Rates(max(ours), max(theirs))


def _ours(world: World, batch: Sequence[Delivery]) -> None:
    assert process(TOPIC, batch, world.ports, time.time()).tally.accepted == len(batch)


def _per_record(world: World) -> Callable[[Sequence[Delivery]], None]:
    world.aws.dynamodb.create_table(
        TableName=_TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    stream = clients.client(world.runtime, "firehose")
    config = IdempotencyConfig(event_key_jmespath="key", expires_after_seconds=24 * 3600)
    config.register_lambda_context(SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000))  # type: ignore[arg-type]

    @idempotent_function(
        data_keyword_argument="record",
        config=config,
        persistence_store=DynamoDBPersistenceLayer(
            _TABLE, boto3_client=clients.client(world.runtime, "dynamodb")
        ),
    )
    def put(record: dict[str, Any]) -> str:
        stream.put_record_batch(
            DeliveryStreamName=world.runtime.names.delivery_stream,
            Records=[{"Data": record["data"].encode()}],
        )
        return "delivered"

    def take(batch: Sequence[Delivery]) -> None:
        for delivery in batch:
            message = prepare(TOPIC, delivery, time.time())
            assert isinstance(message, Message)
            put(record={"key": message.identity.key, "data": message.record.decode()})

    return take


def _deliveries(opening: str) -> list[Delivery]:
    filler = {"filler": "x" * 500}
    sent = int(time.time() * 1e6)
    return [Delivery(f"{opening}-{n}", body(f"{opening}-{n}", filler), sent, 1) for n in range(RECORDS)]


def _rate(take: Callable[[Sequence[Delivery]], None], batch: Sequence[Delivery]) -> float:
    start = time.perf_counter()
    take(batch)
    return len(batch) / (time.perf_counter() - start)


@contextmanager
def _world() -> Iterator[World]:
    patched = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as home, a_world(Path(home), patched) as world:
        warnings.filterwarnings("ignore", module="aws_lambda_powertools")
        yield world


def main() -> None:
    rates = measure()
    print(json.dumps({"ours": round(rates.ours), "per_record": round(rates.per_record)}))
    print(f"{rates.ratio:.1f} times the records per second of per-record idempotency")


if __name__ == "__main__":
    main()
