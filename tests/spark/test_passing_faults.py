"""What a store or an executor does is worth another try; what our own code does is not."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lean_ops.errors import RetryableError
from spark_jobs import passing_faults

pytestmark = pytest.mark.spark


def fail_in_a_task(spark: SparkSession, error: Exception) -> None:
    def work(_: int) -> int:
        raise error

    spark.sparkContext.parallelize([1], 1).map(work).collect()


@pytest.mark.parametrize(
    "error", [OSError("SlowDown"), ConnectionResetError("by peer"), FileNotFoundError("x")]
)
def test_a_store_that_fails_is_tried_again(spark: SparkSession, error: OSError) -> None:
    with pytest.raises(RetryableError, match=type(error).__name__), passing_faults.retryable():
        raise error
    with pytest.raises(RetryableError), passing_faults.retryable():
        fail_in_a_task(spark, OSError("SlowDown"))


def test_a_fault_of_our_own_is_not(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError), passing_faults.retryable():
        fail_in_a_task(spark, ValueError("a bug"))
