"""The Firehose server as its clients and its tables see it."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from werkzeug.serving import make_server

from lean_ops import tables
from lean_ops.aws.catalog import open_catalog
from lean_ops.aws.ddl import ensure_table
from lean_ops.resources import DELIVERY
from lean_ops.runtime import Runtime
from local.delivery import Delivery
from local.error_prefix import FailedFile, Failure
from local.firehose import Firehose, Handler
from local.functions import Function
from local.spool import Spool
from local.transform import Transform
from tests.local.conftest import wait_until

MOMENT = 1_794_000_000_000_000


def record(number: int = 0, topic: str = "orders", **changes: Any) -> bytes:
    row = {
        "message_id": f"m{number}",
        "topic_name": topic,
        "publish_time": MOMENT + number,
        "ingestion_ts": MOMENT // 1000,
        "idempotency_key": None,
        "json_payload": '{"a": 1.10}',
    }
    return json.dumps(row | changes).encode()


@dataclass
class Stream:
    """A running delivery stream and everything it could not deliver."""

    client: Any
    name: str
    endpoint: str
    catalog: Catalog
    failures: list[Failure]

    def put(self, *records: bytes) -> dict[str, Any]:
        entries = [{"Data": each} for each in records]
        return dict(self.client.put_record_batch(DeliveryStreamName=self.name, Records=entries))

    def settle(self) -> None:
        wait_until(lambda: self.status()["waiting_bytes"] == 0)

    def status(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.endpoint}/status") as answer:  # noqa: S310
            return dict(json.load(answer))

    def trouble(self, **faults: Any) -> None:
        urllib.request.urlopen(f"{self.endpoint}/faults", json.dumps(faults).encode()).close()  # noqa: S310

    def rows(self, topic: str = "orders") -> list[dict[str, Any]]:
        table = self.catalog.load_table(tables.raw(topic).identifier)
        return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["publish_time"])


@contextmanager
def a_stream(
    runtime: Runtime,
    catalog: Catalog | None = None,
    function: Callable[[Any], Any] | None = None,
    *,
    commit_seconds: float = 30.0,
    most_bytes: int = 2**28,
) -> Iterator[Stream]:
    names, failures = runtime.names, []  # type: ignore[var-annotated]
    catalog = catalog or open_catalog(runtime.environment, runtime.home)
    for topic in ("orders", "payments"):
        ensure_table(catalog, tables.raw(topic))
    spool = Spool(runtime.home / "spool", segment_bytes=2**23, segment_seconds=0.1, most_bytes=most_bytes)
    transform = Transform(names, function or Function("firehose_transform", names))
    delivery = Delivery(spool, transform, catalog, failures.extend, commit_seconds=commit_seconds)
    app = Firehose(names.delivery_stream, spool, delivery)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    threads = [threading.Thread(target=delivery.run), threading.Thread(target=server.serve_forever)]
    for thread in threads:
        thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    session = boto3.session.Session("local", "local", region_name=names.region)
    once = Config(proxies={}, retries={"total_max_attempts": 1})
    client = session.client("firehose", endpoint_url=endpoint, config=once)
    try:
        yield Stream(client, names.delivery_stream, endpoint, catalog, failures)
    finally:
        delivery.stop()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()


@pytest.fixture
def stream(runtime: Runtime) -> Iterator[Stream]:
    with a_stream(runtime) as running:
        yield running


def error_code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Code"])


def test_records_reach_the_table_that_the_transform_names(stream: Stream) -> None:
    answer = stream.put(record(1), record(2, "payments"), record(3))
    assert answer["FailedPutCount"] == 0
    assert len({each["RecordId"] for each in answer["RequestResponses"]}) == 3
    stream.settle()
    assert [row["message_id"] for row in stream.rows()] == ["m1", "m3"]
    (row,) = stream.rows("payments")
    assert row["json_payload"] == '{"a": 1.10}'
    assert row["publish_time"].timestamp() * 1e6 == pytest.approx(MOMENT + 2, abs=0.5)
    assert stream.failures == []


def test_a_single_record_can_be_put_and_the_stream_described(stream: Stream) -> None:
    assert stream.client.put_record(DeliveryStreamName=stream.name, Record={"Data": record()})["RecordId"]
    found = stream.client.describe_delivery_stream(DeliveryStreamName=stream.name)
    assert found["DeliveryStreamDescription"]["DeliveryStreamStatus"] == "ACTIVE"
    stream.settle()
    assert len(stream.rows()) == 1


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([b"x"] * (DELIVERY.max_batch_records + 1), id="501 records"),
        pytest.param([b"x" * 900_000] * 5, id="more than 4 MB"),
    ],
)
def test_a_batch_beyond_the_limits_of_aws_is_refused_as_a_whole(stream: Stream, records: list[bytes]) -> None:
    assert error_code(partial(stream.put, *records)) == "InvalidArgumentException"
    assert stream.status()["waiting_bytes"] == 0


def test_a_record_beyond_the_limit_of_aws_is_refused(stream: Stream) -> None:
    assert error_code(partial(stream.put, b"x" * (DELIVERY.max_record_bytes + 1))) == "ValidationException"
    stream.put(b"x" * DELIVERY.max_record_bytes)


def test_another_stream_does_not_exist(stream: Stream) -> None:
    put = partial(stream.client.put_record, DeliveryStreamName="other", Record={"Data": b"x"})
    assert error_code(put) == "ResourceNotFoundException"


def test_a_stream_that_is_behind_asks_to_slow_down(runtime: Runtime) -> None:
    with a_stream(runtime, most_bytes=100) as stream:
        assert error_code(partial(stream.put, b"x" * 200)) == "ServiceUnavailableException"


def test_exactly_the_acknowledged_records_of_a_partly_refused_batch_are_delivered(stream: Stream) -> None:
    stream.trouble(refused_share=0.5)
    answer = stream.put(*(record(number) for number in range(200)))
    taken = [f"m{index}" for index, each in enumerate(answer["RequestResponses"]) if "RecordId" in each]
    assert 0 < answer["FailedPutCount"] == 200 - len(taken) < 200
    stream.settle()
    assert [row["message_id"] for row in stream.rows()] == taken


def test_a_stream_that_is_away_takes_nothing_and_comes_back(stream: Stream) -> None:
    stream.trouble(away=True)
    assert error_code(partial(stream.put, record())) == "ServiceUnavailableException"
    stream.trouble()
    stream.put(record())
    stream.settle()
    assert len(stream.rows()) == 1


def test_a_record_that_fits_no_table_ends_under_the_error_prefix_and_costs_no_other(stream: Stream) -> None:
    stream.put(record(1), record(2, "nowhere"), record(3))
    stream.settle()
    assert len(stream.rows()) == 2
    (failure,) = stream.failures
    assert (failure.kind, failure.code) == ("iceberg-failed", "Iceberg.NoSuchTable")
    assert failure.entry.data == record(2, "nowhere")


def test_what_the_transform_does_not_answer_has_failed(runtime: Runtime) -> None:
    real = Function("firehose_transform", runtime.names)

    def forgetful(event: Any) -> Any:
        return {"records": real(event)["records"][1:]}

    with a_stream(runtime, function=forgetful) as stream:
        stream.put(record(1), record(2))
        stream.settle()
        assert [row["message_id"] for row in stream.rows()] == ["m2"]
        assert [failure.code for failure in stream.failures] == ["Lambda.MissingRecordId"]


def test_a_transform_that_throws_is_called_four_times(runtime: Runtime) -> None:
    calls: list[int] = []

    def throwing(event: Any) -> Any:
        calls.append(len(event["records"]))
        raise RuntimeError("no")

    with a_stream(runtime, function=throwing) as stream:
        stream.put(record(1), record(2))
        stream.settle()
        assert calls == [2, 2, 2, 2]
        assert [failure.kind for failure in stream.failures] == ["processing-failed"] * 2
        assert stream.rows() == []


def test_events_stay_within_what_lambda_can_return(runtime: Runtime) -> None:
    sizes: list[int] = []
    real = Function("firehose_transform", runtime.names)

    def watching(event: Any) -> Any:
        sizes.append(sum(len(each["data"]) for each in event["records"]))
        answer = real(event)
        assert len(json.dumps(answer)) < 6 * 1024 * 1024
        return answer

    with a_stream(runtime, function=watching) as stream:
        for _ in range(8):
            stream.put(*(record(number, json_payload="") for number in range(500)))
        stream.settle()
        assert max(sizes) * 3 / 4 <= DELIVERY.transform_event_bytes
        assert len(stream.rows()) == 4_000


def test_commits_of_other_writers_are_waited_out(runtime: Runtime, stream: Stream) -> None:
    other = open_catalog(runtime.environment, runtime.home).load_table(tables.raw("orders").identifier)
    nothing = other.schema().as_arrow().empty_table()
    before = len(other.history())

    def interfere() -> None:
        for _ in range(30):
            with suppress(CommitFailedException):
                other.refresh().append(nothing)

    thread = threading.Thread(target=interfere)
    thread.start()
    for number in range(10):
        stream.put(record(number))
        stream.settle()
    thread.join()
    assert len(other.refresh().history()) > before + 10
    assert [row["message_id"] for row in stream.rows()] == [f"m{number}" for number in range(10)]
    assert stream.failures == []


class Losing(SqlCatalog):
    """A catalog in which another writer is always faster, once it has begun."""

    began = False

    def commit_table(self, *arguments: Any, **named: Any) -> Any:
        if self.began:
            raise CommitFailedException("somebody was faster")
        return super().commit_table(*arguments, **named)


@pytest.fixture
def losing(runtime: Runtime) -> Losing:
    open_catalog(runtime.environment, runtime.home)
    location = {
        "uri": f"sqlite:///{runtime.home}/catalog.db",
        "warehouse": f"file://{runtime.home}/warehouse",
    }
    return Losing("lean_ops", **location)


def test_data_files_that_cannot_be_committed_are_named_under_the_error_prefix(
    runtime: Runtime, losing: Losing
) -> None:
    with a_stream(runtime, losing, commit_seconds=0.5) as stream:
        losing.began = True
        stream.put(record(1))
        stream.settle()
        (failure,) = stream.failures
        assert isinstance(failure, FailedFile)
        assert failure.attempts > 1
        io = losing.load_table(tables.raw("orders").identifier).io
        assert io.new_input(failure.path).exists()


def test_what_was_acknowledged_before_a_stop_is_delivered_after_the_next_start(
    runtime: Runtime, losing: Losing
) -> None:
    with a_stream(runtime, losing, commit_seconds=3600) as stream:
        losing.began = True
        stream.put(record(1))
    with a_stream(runtime) as stream:
        stream.settle()
        assert [row["message_id"] for row in stream.rows()] == ["m1"]
        assert stream.failures == []
