"""RAW → Curated: faster than the straightforward jobs, nearly flat as history grows, quick for a small batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import dlt_way, duckdb_way, plot
from benchmarks.curate import PERIODS, CurateBench, bytes_read
from benchmarks.standardize import TOPIC, timed
from lean_ops import naming

EVENTS = int(os.environ.get("LEAN_OPS_BENCH_EVENTS", "1000000"))
HISTORY = [
    int(rows) for rows in os.environ.get("LEAN_OPS_BENCH_HISTORY", "1000000,5000000,10000000").split(",")
]
SEEDS_LIMIT, DUCKDB_LIMIT, DLT_LIMIT, GROWTH_LIMIT, SMALL_LIMIT = 1.7, 4.0, 20.0, 1.8, 2.5
DLT_EVENTS = 200_000
BATCH, ROUNDS = 20_000, 4

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CurateBench]:
    started = CurateBench.begin(tmp_path_factory.mktemp("bench"))
    started.clear()
    started.send(2_000, seed=9)
    started.both_hops()
    yield started
    started.spark.stop()


def test_a_small_batch_is_quick(bench: CurateBench) -> None:
    seconds = []
    for number in range(12):
        bench.send(200, seed=number, days=1, offset=50_000_000 + number * 1_000)
        *_, taken = bench.both_hops()
        seconds.append(taken)
    print(f"200 rows, both hops, warm: best {min(seconds):.2f} s, median {sorted(seconds)[6]:.2f} s")
    assert min(seconds) < SMALL_LIMIT


def test_history_hardly_slows_a_batch_down(bench: CurateBench) -> None:
    """Three ways, each with a table of its own that shares the files of history."""
    bench.clear()
    plain, window = bench.contender("plain_merge"), bench.contender("window_merge")
    seconds: dict[str, list[float]] = {"lean-ops": [], "plain MERGE": [], "±1 month": []}
    filled = 0
    for rows in HISTORY:
        bench.curated_history(rows - filled, offset=filled)
        bench.share_history((plain, window))
        filled, ours, merges, windows = rows, [], [], []
        for number in range(ROUNDS):
            bench.standardized_corrections(BATCH, 0.03, of=rows, offset=100_000_000 + rows + number * BATCH)
            ours.append(bench.curate())
            if number < 2:
                merges.append(bench.seeds_merge(plain, None))
                windows.append(bench.seeds_merge(window, 1))
        result, taken = min(ours[1:], key=lambda each: each[1])
        for line, best in zip(seconds.values(), (taken, min(merges), min(windows)), strict=True):
            line.append(best)
        print(
            f"{BATCH:,} events, 3 % corrections, against {rows:,} rows: ours {taken:.2f} s, "
            f"plain MERGE {min(merges):.2f} s, ±1 month {min(windows):.2f} s; {result.seconds}"
        )
    if plot_file := os.environ.get("LEAN_OPS_BENCH_PLOT"):
        title = f"{BATCH:,} events, 3 % corrections, against so many rows of Curated"
        Path(plot_file).write_text(plot.lines(HISTORY, seconds, title), encoding="utf-8")
    curated = ".".join(naming.curated_table(TOPIC))
    twice = {table: bench.duplicates(table) for table in (curated, plain, window)}
    one_period, everything = bytes_read(bench, "period_reference == '2024-06'"), bytes_read(bench, "true")
    print(f"duplicates: {twice}; one period of {PERIODS} reads 1/{everything / one_period:.1f} of the bytes")
    assert twice[curated] == 0 < twice[window]
    ours_only = seconds["lean-ops"]
    assert max(ours_only) / ours_only[0] <= GROWTH_LIMIT
    assert one_period <= everything / 12


def test_the_whole_way_against_what_one_would_use_instead(bench: CurateBench, tmp_path: Path) -> None:
    """Everything once on a tenth first, so that all run warm."""
    for events in (EVENTS // 10, EVENTS):
        bench.clear()
        bench.send(events, commits=10)
        seeds = bench.seeds_both_hops()
        _, by_hand = timed(
            lambda: duckdb_way.both_hops(bench.catalog.load_table(naming.raw_table(TOPIC)), tmp_path)
        )
        standardized, curated, ours = bench.both_hops()
    print(
        f"{EVENTS:,} events: the seeds' way {seeds:.1f} s, DuckDB by hand {by_hand:.1f} s, ours {ours:.1f} s: "
        f"{seeds / ours:.2f} times the seeds', {ours / by_hand:.2f} times DuckDB's time; "
        f"{standardized.seconds}; {curated.seconds}"
    )
    assert seeds / ours >= SEEDS_LIMIT
    assert ours / by_hand <= DUCKDB_LIMIT


def test_the_whole_way_against_dlt(bench: CurateBench, tmp_path: Path) -> None:
    """dlt upserts what it is given ready: parsed, and each key once."""
    bench.clear()
    bench.send(DLT_EVENTS, commits=2)
    *_, ours = bench.both_hops()
    events = dlt_way.newest_events(bench.catalog.load_table(naming.raw_table(TOPIC)))
    rows, theirs = dlt_way.upsert(events, tmp_path)
    print(f"{DLT_EVENTS:,} events: dlt {theirs:.1f} s, ours {ours:.1f} s: {theirs / ours:.0f} times as fast")
    assert rows == len(events)
    assert theirs / ours >= DLT_LIMIT
