"""The books of Curated: whatever is lost, doubled or swapped does not balance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lean_ops.batch.accounting import UnbalancedError
from lean_ops.batch.curated_books import CuratedBooks

SOUND = CuratedBooks(
    source_rows=10,
    source_fingerprint=100,
    current_messages=6,
    current_fingerprint=60,
    superseded_messages=3,
    superseded_fingerprint=30,
    error_messages=1,
    error_fingerprint=10,
    missing=0,
    doubled=0,
    foreign=0,
    wrong_rows=0,
    valid_keys=6,
    known_keys=2,
    moved_keys=2,
    added_rows=4,
    updated_rows=2,
)


def test_sound_books_balance() -> None:
    SOUND.check("b", lambda: pytest.fail("nobody is asked for offenders"))


@pytest.mark.parametrize(
    "change",
    [
        {"missing": 1},
        {"doubled": 1},
        {"foreign": 1},
        {"wrong_rows": 1},
        {"current_messages": 5},
        {"error_messages": 2},
        {"current_fingerprint": 61},
        {"source_fingerprint": 99},
        {"added_rows": 5},
        {"added_rows": 3},
        {"updated_rows": 1},
        {"known_keys": 3},
    ],
)
def test_anything_else_stops_the_batch_and_names_a_record(change: dict[str, int]) -> None:
    with pytest.raises(UnbalancedError, match="does not balance") as caught:
        replace(SOUND, **change).check("b", lambda: ["m1"])
    assert caught.value.next_step == "lean-ops explain m1"
    assert caught.value.facts["faults"]


def test_a_loss_and_a_double_do_not_cancel() -> None:
    swapped = replace(SOUND, current_fingerprint=SOUND.current_fingerprint - 7 + 9)
    assert swapped.faults() == ["the fingerprints differ"]
