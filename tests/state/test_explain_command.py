"""`lean-ops explain` finds a record in every table, with the batch that wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import EqualTo

from lean_ops import naming, tables
from lean_ops.errors import NotFoundError
from tests.state.test_curated_verification import (
    ERRORS,
    MESSAGES,
    ROWS,
    append,
    attempt,
    held,
    publish,
    version,
)
from tests.state.test_named_sql import arrivals
from tests.state.test_reading_commands import lake, lean_ops, root

__all__ = ["lake", "root"]


def told(root: Path, *arguments: str) -> list[dict[str, Any]]:
    answer = lean_ops(root, "explain", *arguments, "--json")
    assert answer.exit_code == 0
    return json.loads(answer.stdout)


def outcomes(root: Path, *arguments: str) -> dict[str, str]:
    return {each["message_id"]: each["outcome"] for each in told(root, *arguments)}


@pytest.fixture
def filled(lake: Catalog) -> Catalog:
    # Their key is in the payload: RAW does not know it.
    append(
        lake,
        naming.raw_table("orders"),
        [row | {"idempotency_key": None} for row in arrivals(0, 1, 2, 3, 4, 4, 5)],
    )
    append(lake, tables.PARSE_ERRORS.identifier, [dated(attempt(version(5)) | {"idempotency_key": "k"})])
    publish(lake, MESSAGES, ROWS, [dated(row) for row in ERRORS])
    append(lake, naming.standardized_table("orders"), [version(6)])
    append(lake, naming.raw_table("orders"), arrivals(6, 7))
    append(lake, tables.DLQ_ERRORS.identifier, [dated(attempt(version(8)))])
    return lake


def dated(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "detected_at": row["publish_time"],
        "error_code": "CODE",
        "batch_id": "b",
        "contract_version": "1.0",
    }


def test_every_message_is_told_by_its_id(filled: Catalog, root: Path) -> None:
    found = {number: outcomes(root, f"m{number}", "--topic", "orders") for number in range(9)}
    assert found == {
        0: {"m0": "superseded"},
        1: {"m1": "superseded"},
        2: {"m2": "delivered"},
        3: {"m3": "open_error"},
        4: {"m4": "open_error"},
        5: {"m5": "parse_error"},
        6: {"m6": "waiting"},
        7: {"m7": "waiting"},
        8: {"m8": "dead_letter"},
    }


def test_a_key_is_told_with_all_its_versions(filled: Catalog, root: Path) -> None:
    assert outcomes(root, "--key", "k") == {
        "m0": "superseded",
        "m1": "superseded",
        "m2": "delivered",
        "m3": "open_error",
        "m5": "parse_error",
        "m6": "waiting",
        "m7": "waiting",
    }


def test_a_healed_message_tells_its_attempts_its_batches_and_its_snapshots(
    filled: Catalog, root: Path
) -> None:
    (story,) = told(root, "m0")
    stations = [(event["layer"], event["text"], event["batch_id"]) for event in story["timeline"]]
    assert ("errors", "attempt 2 resolved: CODE", "b") in stations
    curated = next(event for event in story["timeline"] if event["layer"] == "curated")
    table = filled.load_table(naming.curated_table("orders"))
    assert (curated["batch_id"], curated["snapshot"]) == ("b", table.metadata.current_snapshot_id)
    assert "m2" in story["why"]


def test_a_row_that_a_merge_replaced_is_not_there_any_more(filled: Catalog, root: Path) -> None:
    table = filled.load_table(naming.curated_table("orders"))
    table.delete(EqualTo("idempotency_key", "k"))
    end = filled.load_table(naming.standardized_table("orders")).metadata.current_snapshot_id
    token = {"lean.batch-id": "later", "lean.source-end": str(end), "lean.reason": "first_read"}
    append(filled, naming.curated_table("orders"), [held(version(6), version(0))], **token)
    assert outcomes(root, "m2") == {"m2": "superseded"}
    (story,) = told(root, "m6")
    assert (story["outcome"], story["timeline"][-1]["batch_id"]) == ("delivered", "later")


def test_two_messages_of_one_id_are_two(filled: Catalog, root: Path) -> None:
    append(filled, naming.raw_table("orders"), [arrivals(9)[0] | {"message_id": "m2"}])
    assert [each["outcome"] for each in told(root, "m2")] == ["delivered", "waiting"]


def test_people_read_the_outcome_first(filled: Catalog, root: Path) -> None:
    lines = lean_ops(root, "explain", "m4").stdout.splitlines()
    assert lines[0].startswith("orders: m4 of 2026-02-01 00:00:00.000002Z")
    assert lines[1].startswith("open_error: CODE")
    assert "arrived 2 times" in lines[1]


def test_nobody_is_told_of_what_is_nowhere(filled: Catalog, root: Path) -> None:
    with pytest.raises(NotFoundError, match="'nobody'"):
        lean_ops(root, "explain", "nobody")
    assert lean_ops(root, "explain").exit_code == 2
    assert lean_ops(root, "explain", "m1", "--key", "k").exit_code == 2
