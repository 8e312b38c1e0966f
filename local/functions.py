"""The real handlers, loaded by the name of their function and called as Lambda calls them."""

from __future__ import annotations

import importlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lean_ops.naming import Names
from lean_ops.resources import FUNCTIONS

Handler = Callable[[Any, "Context"], Any]


@dataclass(frozen=True)
class Context:
    """What a handler may ask Lambda."""

    function_name: str
    invoked_function_arn: str
    memory_limit_in_mb: int
    deadline: float
    function_version: str = "$LATEST"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        return max(int((self.deadline - time.monotonic()) * 1000), 0)


@dataclass(frozen=True)
class Function:
    """One Lambda function of the environment."""

    name: str
    names: Names

    @property
    def arn(self) -> str:
        region, account = self.names.region, self.names.account
        return f"arn:aws:lambda:{region}:{account}:function:{self.names.function(self.name)}"

    def __call__(self, event: Any) -> Any:
        settings = FUNCTIONS[self.name]
        handler: Handler = importlib.import_module(f"lambdas.{self.name}.handler").handler
        deadline = time.monotonic() + settings.timeout_seconds
        return handler(event, Context(self.names.function(self.name), self.arn, settings.memory_mb, deadline))
