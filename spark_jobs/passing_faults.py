"""Faults of stores and executors, which pass: whatever a job was doing, doing it again is safe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

from lean_ops.errors import RetryableError

# How Spark names an error of our own code in a task, and which of those are none of ours.
_OURS, _OF_STORES = "PythonException", "OSError"


@contextmanager
def retryable() -> Iterator[None]:
    """Files are read and written here and by tasks: what a store or Spark says becomes a RetryableError."""
    try:
        yield
    except OSError as error:
        raise RetryableError(type(error).__name__) from error
    except Py4JJavaError as error:
        said = str(error)
        if _OURS in said and _OF_STORES not in said:
            raise
        # The text may quote data.
        raise RetryableError(str(error.java_exception.getClass().getSimpleName())) from error
