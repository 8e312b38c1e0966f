"""RAW → Curated: faster than the straightforward jobs, nearly flat as history grows, quick for a small batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import duckdb_way
from benchmarks.curate import PERIODS, CurateBench, bytes_read
from benchmarks.standardize import TOPIC, timed
from lean_ops import naming

EVENTS = int(os.environ.get("LEAN_OPS_BENCH_EVENTS", "1000000"))
HISTORY = [
    int(rows) for rows in os.environ.get("LEAN_OPS_BENCH_HISTORY", "1000000,5000000,10000000").split(",")
]
SEEDS_LIMIT, DUCKDB_LIMIT, GROWTH_LIMIT, SMALL_LIMIT = 1.7, 4.0, 1.8, 2.5
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
    bench.clear()
    fastest, filled = [], 0
    for rows in HISTORY:
        bench.curated_history(rows - filled, offset=filled)
        filled, rounds = rows, []
        for number in range(ROUNDS):
            bench.standardized_corrections(BATCH, 0.03, of=rows, offset=100_000_000 + rows + number * BATCH)
            result, taken = bench.curate()
            rounds.append(taken)
        fastest.append(min(rounds[1:]))
        print(
            f"{BATCH:,} events, 3 % corrections, against {rows:,} rows: {fastest[-1]:.2f} s; {result.counts}"
        )
    table = ".".join(naming.curated_table(TOPIC))
    twice = bench.spark.sql(f"select count(*) - count(distinct idempotency_key) from {table}").collect()[0][0]
    one_period, everything = bytes_read(bench, "period_reference == '2024-06'"), bytes_read(bench, "true")
    print(f"duplicates {twice}; one period of {PERIODS} reads 1/{everything / one_period:.1f} of the bytes")
    assert twice == 0
    assert max(fastest) / fastest[0] <= GROWTH_LIMIT
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


def test_the_seeds_window_leaves_duplicates(bench: CurateBench) -> None:
    """Why no window is used: beyond a month every correction becomes a second row."""
    twice = bench.seeds_window_duplicates(history=200_000, batch=BATCH)
    print(f"±1 month: {twice[1]} duplicates; all history: {twice[None]}")
    assert twice[None] == 0 < twice[1]
