"""Firehose's buffer: nothing acknowledged is lost, whatever kills the process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.spool import Segment, Spool, SpoolFullError
from tests.local.conftest import wait_until

MEGABYTE = 1024 * 1024


def a_spool(
    folder: Path, *, segment_bytes: int = MEGABYTE, seconds: float = 0.0, most: int = MEGABYTE
) -> Spool:
    return Spool(folder, segment_bytes=segment_bytes, segment_seconds=seconds, most_bytes=most)


def contents(segment: Segment | None) -> list[bytes]:
    assert segment is not None
    return [entry.data for entry in segment.entries()]


def test_records_come_back_in_order_with_the_ids_they_were_acknowledged_with(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    ids = spool.append([b"a", b""]) + spool.append([b"c"])
    segment = spool.next_segment()
    assert contents(segment) == [b"a", b"", b"c"]
    assert [entry.record_id for entry in segment.entries()] == ids  # type: ignore[union-attr]
    assert len(set(ids)) == 3


def test_an_undelivered_segment_is_there_again_after_a_crash(tmp_path: Path) -> None:
    a_spool(tmp_path).append([b"closed by the crash"])
    again = a_spool(tmp_path)
    again.append([b"later"])
    first = again.next_segment()
    assert contents(first) == [b"closed by the crash"]
    again.delivered(first)  # type: ignore[arg-type]
    assert contents(again.next_segment()) == [b"later"]


@given(records=st.lists(st.binary(max_size=50), min_size=1, max_size=5), cut=st.integers(min_value=0))
def test_a_torn_last_record_is_ignored_and_those_before_it_are_not(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    a_spool(folder).append(records)
    file = folder / "00000001.spool"
    whole = file.read_bytes()
    sizes = [12 + len(record) for record in records]
    kept = whole[: cut % (len(whole) + 1)]
    file.write_bytes(kept)
    complete = [record for index, record in enumerate(records) if sum(sizes[: index + 1]) <= len(kept)]
    assert contents(Segment(file)) == complete


def test_a_delivered_segment_is_gone_and_its_bytes_are_free_again(tmp_path: Path) -> None:
    spool = a_spool(tmp_path, most=100)
    spool.append([b"x" * 80])
    with pytest.raises(SpoolFullError):
        spool.append([b"y" * 80])
    segment = spool.next_segment()
    spool.delivered(segment)  # type: ignore[arg-type]
    assert spool.waiting_bytes == 0
    spool.append([b"y" * 80])
    assert contents(spool.next_segment()) == [b"y" * 80]


def test_a_segment_is_due_when_it_is_full_or_old(tmp_path: Path) -> None:
    by_size = a_spool(tmp_path / "size", segment_bytes=10, seconds=3600)
    by_size.append([b"x" * 20])
    assert contents(by_size.next_segment()) == [b"x" * 20]
    by_age = a_spool(tmp_path / "age", seconds=0.05)
    by_age.append([b"y"])
    assert contents(by_age.next_segment()) == [b"y"]


def test_a_waiting_taker_ends_when_the_spool_is_closed(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    taken: list[Segment | None] = []
    taker = threading.Thread(target=lambda: taken.append(spool.next_segment()))
    taker.start()
    spool.close()
    wait_until(lambda: taken == [None])
    taker.join()
