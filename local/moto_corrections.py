"""Corrections to moto 5.2.5, without which concurrent writers lose data that AWS would keep.

Unpatched, 5 of 150 races of conditional puts had not exactly one winner, and of 36 acknowledged Glue commits
29 were kept. Each correction has a test in tests/local/ that fails without it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any

from moto.core import responses
from moto.core.common_models import BaseModel
from moto.core.responses import BaseResponse
from moto.dynamodb.responses import DynamoHandler
from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.sqs import models as sqs

from local import moto_queues


@cache
def apply() -> None:
    """Correct moto for this process, once; the backends must not have been used before."""
    _remember_names()
    _replace(BaseModel, "__new__", _untracked)
    _one_at_a_time(DynamoHandler)
    _one_at_a_time(GlueResponse)
    _replace(GlueResponse, "update_table", _refusing_stale_versions(GlueResponse.update_table))
    _replace(sqs, "Queue", moto_queues.StandardQueue)
    _replace(sqs.SQSBackend, "receive_message", moto_queues.receive_message)
    _replace(sqs.SQSBackend, "change_message_visibility", moto_queues.change_message_visibility)


def _replace(owner: Any, name: str, correction: Any) -> None:
    getattr(owner, name)  # another version of moto may not have it: say so here, not in lost data later
    setattr(owner, name, correction)


def _remember_names() -> None:
    """Pure functions of names took most of a call (one of them listed moto's folders each time)."""
    for owner, name in (
        (DomainDispatcherApplication, "get_backend_for_host"),
        (sqs, "camelcase_to_underscores"),
        (responses, "camelcase_to_underscores"),
        (responses, "method_names_from_class"),
    ):
        _replace(owner, name, cache(getattr(owner, name)))
    _replace(sqs, "generate_receipt_handle", lambda: secrets.token_urlsafe(64))


def _untracked(cls: type[Any], *_args: Any, **_kwargs: Any) -> Any:
    """moto keeps every object it ever made for its own reset: every message sent would stay in memory."""
    return object.__new__(cls)


def _one_at_a_time(handler: type[BaseResponse]) -> None:
    """moto checks a condition and applies the write in two steps that threads can come between."""
    lock, call_action = RLock(), handler.call_action

    def locked(self: BaseResponse) -> Any:
        with lock:
            return call_action(self)

    _replace(handler, "call_action", locked)


def _refusing_stale_versions(update_table: Callable[[GlueResponse], Any]) -> Callable[[GlueResponse], Any]:
    """Iceberg's commits rely on Glue's optimistic locking, which moto ignores; so it does `SkipArchive`."""

    def update(self: GlueResponse) -> Any:
        database, name = self.parameters["DatabaseName"], self.parameters["TableInput"]["Name"]
        table = self.glue_backend.get_table(database, name)
        current = str(table._current_version)
        if self.parameters.get("VersionId", current) != current:
            raise GlueClientError(
                "ConcurrentModificationException", f"{database}.{name} is at version {current}"
            )
        response = update_table(self)
        if self.parameters.get("SkipArchive"):
            table.delete_version(current)
        return response

    return update
