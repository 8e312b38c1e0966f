"""The Lambda service: a poller per event source mapping, and the scheduled functions, with the real handlers."""

from __future__ import annotations

import logging
import os
import signal
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lean_ops import runtime as runtimes
from lean_ops.aws import clients
from lean_ops.naming import Names
from lean_ops.resources import FUNCTIONS, OBJECT_RULES, FunctionSettings
from local import settings as local_settings
from local.execution import Execution, FunctionError
from local.pollers import Mapping, Poller, batch_call, logger, relay_call

_CACHE_SECONDS = 1.0


class Mappings:
    """The event source mappings of the emulation, asked for once a second."""

    def __init__(self, aws_lambda: Any, names: Names) -> None:
        self._client = aws_lambda
        self._functions = {names.function(name): name for name in FUNCTIONS}
        self._lock = Lock()
        self._known: dict[str, Mapping] = {}
        self._until = 0.0

    def current(self) -> dict[str, Mapping]:
        """By queue ARN. An emulation that does not answer changes nothing."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._known = self._ask()
                except (ClientError, BotoCoreError) as error:
                    logger.warning("event source mappings: %s", error)
                self._until = time.monotonic() + _CACHE_SECONDS
            return self._known

    def of(self, queue_arn: str) -> Mapping | None:
        return self.current().get(queue_arn)

    def _ask(self) -> dict[str, Mapping]:
        found: dict[str, Mapping] = {}
        for page in self._client.get_paginator("list_event_source_mappings").paginate():
            for mapping in page["EventSourceMappings"]:
                name = mapping["FunctionArn"].rpartition("function:")[2].partition(":")[0]
                queue_arn = mapping["EventSourceArn"]
                enabled = mapping["State"] == "Enabled"
                found[queue_arn] = Mapping(queue_arn, self._functions[name], mapping["BatchSize"], enabled)
        return found


def ready_file(home: Path) -> Path:
    """There once every queue that has a mapping is polled."""
    return home / "logs" / "lambda.ready"


class Service:
    """Everything that calls functions."""

    def __init__(self, runtime: runtimes.Runtime, settings: local_settings.Settings) -> None:
        self._runtime, self._settings = runtime, settings
        self._stopping = Event()
        self._execution = cache(Execution)
        self._threads: dict[str, Thread] = {}

    def run(self) -> None:
        """Serve until told to stop: a mapping that is made later gets its poller within a second."""
        patient = Config(max_pool_connections=50, retries={"mode": "standard"})
        sqs = clients.client(self._runtime, "sqs", patient)
        mappings = Mappings(clients.client(self._runtime, "lambda"), self._runtime.names)
        for function in FUNCTIONS.values():
            if function.every_seconds:
                self._start(function.name, self._schedule(function))
        while not self._stopping.is_set():
            for queue_arn, mapping in mappings.current().items():
                if queue_arn not in self._threads:
                    self._start(queue_arn, self._poller(sqs, mappings, mapping))
            ready_file(self._runtime.home).touch()
            self._stopping.wait(_CACHE_SECONDS)
            self._end_with_the_first_dead()
        for thread in self._threads.values():
            thread.join()

    def _end_with_the_first_dead(self) -> None:
        """A queue that nobody polls looks like a quiet one: better that the whole stack says what happened."""
        dead = [name for name, thread in self._threads.items() if not thread.is_alive()]
        if dead and not self._stopping.is_set():
            self._stopping.set()
            raise RuntimeError(f"the thread of {dead[0]} has died")

    def stop(self, *_: Any) -> None:
        self._stopping.set()

    def _start(self, name: str, target: Callable[[Event], None]) -> None:
        self._threads[name] = Thread(target=target, args=[self._stopping], name=name)
        self._threads[name].start()

    def _poller(self, sqs: Any, mappings: Mappings, mapping: Mapping) -> Callable[[Event], None]:
        function = self._execution(mapping.function)
        relayed = mapping.function in {rule.function for rule in OBJECT_RULES}
        return Poller(
            sqs,
            lambda: mappings.of(mapping.queue_arn),
            relay_call(function) if relayed else batch_call(function),
            window_seconds=self._settings.batch_window_seconds,
        ).run

    def _schedule(self, settings: FunctionSettings) -> Callable[[Event], None]:
        name, function = settings.name, self._execution(settings.name)
        pause = self._settings.schedule_seconds * settings.every_seconds / 60

        def run(stopping: Event) -> None:
            while not stopping.wait(pause):
                try:
                    function(self._scheduled_event())
                except FunctionError as error:
                    logger.warning("%s: %s", name, error)

        return run

    def _scheduled_event(self) -> dict[str, Any]:
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": self._runtime.names.account,
            "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "region": self._runtime.names.region,
            "resources": [],
            "detail": {},
        }


def main() -> None:
    """Run in this process's environment."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    service = Service(runtimes.from_variables(os.environ), local_settings.from_variables(os.environ))
    signal.signal(signal.SIGTERM, service.stop)
    signal.signal(signal.SIGINT, service.stop)
    service.run()


if __name__ == "__main__":
    main()
