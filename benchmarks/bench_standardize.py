"""RAW → Standardized: at least twice the straightforward job, flat as history grows, quick for a small batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from operator import itemgetter

import pytest

from benchmarks.events import START
from benchmarks.standardize import Bench, peak_of_ours_alone

EVENTS = int(os.environ.get("LEAN_OPS_BENCH_EVENTS", "1000000"))
HISTORY = [
    int(rows) for rows in os.environ.get("LEAN_OPS_BENCH_HISTORY", "1000000,5000000,10000000").split(",")
]
THROUGHPUT_LIMIT, GROWTH_LIMIT, SMALL_LIMIT, MEMORY_LIMIT = 2.0, 1.3, 1.2, 4.0
ROUNDS = 5

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    started = Bench.start(tmp_path_factory.mktemp("bench"))
    started.send(2_000, seed=9)
    started.standardize()  # warm
    yield started
    started.spark.stop()


def test_a_small_batch_is_quick(bench: Bench) -> None:
    seconds, steps = [], {}
    for number in range(3 * ROUNDS):
        bench.send(200, seed=number, days=1, offset=50_000_000 + number * 1_000)
        result, taken = bench.standardize()
        seconds.append(taken)
        steps = result.seconds
    best = sorted(seconds)[:ROUNDS]
    print(
        f"200 rows, warm: best {best[0]:.2f} s, median of all {sorted(seconds)[len(seconds) // 2]:.2f} s; {steps}"
    )
    assert best[0] < SMALL_LIMIT


def test_history_does_not_slow_a_batch_down(bench: Bench) -> None:
    bench.clear()
    fastest: list[float] = []
    filled = 0
    for rows in HISTORY:
        bench.history(rows - filled, offset=filled)
        filled = rows
        rounds: list[tuple[float, dict[str, float]]] = []
        for number in range(ROUNDS):
            # On days of their own: not the day's history is to grow, but all the rest.
            start = START + timedelta(days=10 * len(fastest))
            bench.send(20_000, seed=number, offset=100_000_000 + rows + number * 100_000, start=start)
            result, taken = bench.standardize()
            rounds.append((taken, result.seconds))
        taken, steps = min(rounds[1:], key=itemgetter(0))
        fastest.append(taken)
        print(f"20,000 events against {rows:,} rows: {taken:.2f} s; {steps}")
    assert max(fastest) / fastest[0] <= GROWTH_LIMIT


def test_twice_the_throughput_of_the_straightforward_job(bench: Bench) -> None:
    """Both in turn, twice: the first round warms what both use, each counts with its better one."""
    theirs, ours = [], []
    for _ in range(2):
        bench.clear()
        size = bench.send(EVENTS, commits=10)
        theirs.append(bench.seeds_way())
        result, taken = bench.standardize()
        ours.append(taken)
        print(f"straightforward {theirs[-1]:.1f} s, ours {taken:.1f} s: {result.seconds}")
    memory, ratio = peak_of_ours_alone(bench.runtime.home), min(theirs) / min(ours)
    print(
        f"{EVENTS:,} events, {size / 1e6:.0f} MB: straightforward {min(theirs):.1f} s, ours {min(ours):.1f} s, "
        f"{ratio:.2f} times; peak {memory:.1f} GB; {result.counts}"
    )
    assert ratio >= THROUGHPUT_LIMIT
    assert memory <= MEMORY_LIMIT
