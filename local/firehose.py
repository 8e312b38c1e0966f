"""A Firehose delivery stream to Iceberg tables: the wire protocol, the limits and the buffering of AWS's own."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from werkzeug import Request, Response
from werkzeug.serving import WSGIRequestHandler, make_server

from lean_ops import runtime as runtimes
from lean_ops.aws import clients
from lean_ops.aws.catalog import open_catalog
from lean_ops.resources import DELIVERY
from local import error_prefix, serving
from local import settings as local_settings
from local.delivery import Delivery
from local.functions import Function
from local.spool import Spool, SpoolFullError
from local.transform import Transform

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

SPOOL_FOLDER = "firehose"
_TARGET = "Firehose_20150804."
_SLOW_DOWN = {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down."}


class _Record(msgspec.Struct, rename="pascal"):
    data: bytes


class _PutRecord(msgspec.Struct, rename="pascal"):
    delivery_stream_name: str
    record: _Record


class _PutRecordBatch(msgspec.Struct, rename="pascal"):
    delivery_stream_name: str
    records: list[_Record]


class _Describe(msgspec.Struct, rename="pascal"):
    delivery_stream_name: str


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Trouble on request, for tests: the stream is away, or refuses a share of the records of every batch."""

    away: bool = False
    refused_share: float = 0.0


class CallError(Exception):
    """An error that the client sees as AWS's."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class Handler(serving.Quiet, WSGIRequestHandler):
    """Without a line per request."""


class Firehose:
    """The server's answers. Whatever it acknowledges is in the spool."""

    def __init__(self, stream: str, spool: Spool, delivery: Delivery) -> None:
        self._stream, self._spool, self._delivery = stream, spool, delivery
        self._faults = Faults()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        try:
            response = _json(self._answer(Request(environ)))
        except msgspec.DecodeError as error:
            response = _json({"__type": "SerializationException", "message": str(error)}, 400)
        except CallError as error:
            response = _json({"__type": error.code, "message": str(error)}, error.status)
        return response(environ, start_response)

    def _answer(self, request: Request) -> dict[str, Any]:
        if request.path == "/status":
            return {"waiting_bytes": self._spool.waiting_bytes, "delivered": self._delivery.delivered}
        if request.path == "/faults":
            self._faults = msgspec.json.decode(request.get_data(), type=Faults)
            return {}
        action = request.headers.get("X-Amz-Target", "").removeprefix(_TARGET)
        if self._faults.away:
            raise CallError("ServiceUnavailableException", "Slow down.", 503)
        match action:
            case "PutRecord":
                put = self._decode(request, _PutRecord)
                return {"Encrypted": False, **self._keep([put.record])[0]}
            case "PutRecordBatch":
                return self._put_batch(self._decode(request, _PutRecordBatch).records)
            case "DescribeDeliveryStream":
                self._decode(request, _Describe)
                return {"DeliveryStreamDescription": self._description()}
        raise CallError("UnknownOperationException", f"{action!r} is not emulated")

    def _decode(self, request: Request, kind: type[Any]) -> Any:
        call = msgspec.json.decode(request.get_data(), type=kind)
        if call.delivery_stream_name != self._stream:
            message = f"Firehose {call.delivery_stream_name} under this account not found."
            raise CallError("ResourceNotFoundException", message)
        return call

    def _put_batch(self, records: list[_Record]) -> dict[str, Any]:
        if not 1 <= len(records) <= DELIVERY.max_batch_records:
            raise CallError(
                "InvalidArgumentException", f"{len(records)} records: between 1 and 500 are allowed"
            )
        if sum(len(record.data) for record in records) > DELIVERY.max_batch_bytes:
            raise CallError("InvalidArgumentException", "Records size exceeds 4 MB limit")
        share = self._faults.refused_share
        refused = [bool(share) and random.random() < share for _ in records]  # noqa: S311 (no secret)
        taken = iter(self._keep([record for record, no in zip(records, refused, strict=True) if not no]))
        responses = [_SLOW_DOWN if no else next(taken) for no in refused]
        return {"FailedPutCount": sum(refused), "Encrypted": False, "RequestResponses": responses}

    def _keep(self, records: list[_Record]) -> list[dict[str, Any]]:
        if any(len(record.data) > DELIVERY.max_record_bytes for record in records):
            raise CallError("ValidationException", f"a record exceeds {DELIVERY.max_record_bytes} bytes")
        try:
            return [{"RecordId": name} for name in self._spool.append([record.data for record in records])]
        except SpoolFullError as error:
            raise CallError("ServiceUnavailableException", "Slow down.", 503) from error

    def _description(self) -> dict[str, Any]:
        return {
            "DeliveryStreamName": self._stream,
            "DeliveryStreamARN": f"arn:aws:firehose:::deliverystream/{self._stream}",
            "DeliveryStreamStatus": "ACTIVE",
            "DeliveryStreamType": "DirectPut",
            "VersionId": "1",
            "Destinations": [],
            "HasMoreDestinations": False,
        }


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, content_type="application/x-amz-json-1.1")


def main(port: int) -> None:
    """Serve and deliver until told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    runtime = runtimes.from_variables(os.environ)
    settings = local_settings.from_variables(os.environ)
    names = runtime.names
    spool = Spool(
        runtime.home / SPOOL_FOLDER,
        segment_bytes=int(settings.buffer_mb * 1024 * 1024),
        segment_seconds=settings.buffer_seconds,
        most_bytes=int(settings.spool_mb * 1024 * 1024),
    )
    function = Function("firehose_transform", names)
    delivery = Delivery(
        spool,
        Transform(names, function),
        open_catalog(runtime.environment, runtime.home),
        partial(error_prefix.put, clients.client(runtime, "s3"), names, function.arn),
        commit_seconds=settings.commit_retry_seconds,
    )
    server = make_server(
        "127.0.0.1",
        port,
        Firehose(names.delivery_stream, spool, delivery),
        threaded=True,
        request_handler=Handler,
    )

    def deliver() -> None:
        try:
            delivery.run()
        except BaseException:
            logging.exception("delivery")
            os.kill(os.getpid(), signal.SIGTERM)  # a stream that only takes would look well for long
            raise

    thread = threading.Thread(target=deliver, name="delivery")
    thread.start()
    serving.until_told_to_stop(server)
    delivery.stop()
    thread.join()


if __name__ == "__main__":
    main(int(sys.argv[1]))
