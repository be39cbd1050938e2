"""The report of the gateway's benchmark: ratios are of turns of one round, goals are judged right."""

from dataclasses import replace

import pytest

from benchmarks.gateway import (
    DIRECT,
    HAPROXY,
    HAPROXY_2,
    PROCESS_WAYS,
    WEIR,
    WEIR_2,
    WEIR_4,
    Idle,
    Turn,
    idle_table,
    latency_table,
    processes_table,
    processor_table,
    ratio,
    ratio_to_threads,
    spread_of,
    throughput_table,
)

WAYS = (DIRECT, HAPROXY, WEIR)


def turn(way: str, round_number: int = 1, rate: float = 100.0, cpu_s: float = 1.0, load: str = "x") -> Turn:
    """100,000 requests of 0.125 MB each: a processor second is 10 us per request, 0.08 ms per MB."""
    return Turn(load, round_number, way, rate, 100_000, 0.125, 100.0, 1_000.0, cpu_s, 2.0)


def last_cell(lines: list[str], title: str) -> str:
    (row,) = (line for line in lines if line.startswith(f"| {title}"))
    return row.split(" | ")[-1].removesuffix(" |")


def test_a_ratio_is_the_median_over_rounds_of_neighbouring_turns() -> None:
    # The machine is ten times slower in the second round, for both ways.
    turns = [turn(HAPROXY, 1, 100), turn(WEIR, 1, 90), turn(WEIR, 2, 9), turn(HAPROXY, 2, 10)]
    turns += [turn(HAPROXY, 3, 100), turn(WEIR, 3, 50), turn(HAPROXY, 4, 100)]
    assert ratio(turns, lambda each: each.rate, WEIR, HAPROXY) == (0.9, 0.5, 0.9)
    assert ratio(turns[:1], lambda each: each.rate, WEIR, HAPROXY) is None


@pytest.mark.parametrize(
    ("load", "goal", "rate", "verdict"),
    [
        ("fetch_1m", "1", 99.9, "MISS"),
        ("fetch_1m", "1", 100, "hit"),
        ("produce_16k", "0.95", 94.9, "MISS"),
        ("produce_16k", "0.95", 95, "hit"),
        ("metadata", "0.9", 90.1, "hit"),
    ],
)
def test_throughput_is_judged_by_the_ratio_to_haproxy(
    load: str, goal: str, rate: float, verdict: str
) -> None:
    lines = throughput_table({load: [turn(DIRECT, rate=500), turn(HAPROXY), turn(WEIR, rate=rate)]}, WAYS)
    assert lines[-1].endswith(f"{verdict} (at least {goal}) |")


@pytest.mark.parametrize(
    ("load", "cpu_s", "verdict"),
    [
        ("api_versions", 1.99, "hit (under 20 us)"),
        ("api_versions", 2.0, "MISS (under 20 us)"),
        ("fetch_64k", 12.49, "hit (under 1 ms per MB)"),
        ("fetch_64k", 12.5, "MISS (under 1 ms per MB)"),
        ("fetch_16k", 37.4, "hit (under 3 ms per MB)"),
        ("fetch_16k", 37.5, "MISS (under 3 ms per MB)"),
        ("produce_1m", 5.0, "hit (at most HAProxy's)"),
        ("produce_1m", 5.01, "MISS (at most HAProxy's)"),
    ],
)
def test_processor_time_is_judged_by_the_goal_of_the_load(load: str, cpu_s: float, verdict: str) -> None:
    lines = processor_table({load: [turn(DIRECT), turn(HAPROXY, cpu_s=5.0), turn(WEIR, cpu_s=cpu_s)]}, WAYS)
    assert lines[-1].endswith(f"{verdict} |")


@pytest.mark.parametrize(
    ("p50_us", "p99_us", "verdict"),
    [(249, 1_999, "hit"), (250, 1_999, "MISS"), (249, 2_000, "MISS")],
)
def test_latency_is_judged_by_what_is_added_in_the_same_round(
    p50_us: float, p99_us: float, verdict: str
) -> None:
    ours = replace(turn(WEIR), p50_us=p50_us, p99_us=p99_us)
    assert last_cell(latency_table([turn(DIRECT), ours], WAYS), "Weir") == f"{verdict} (under 150 and 1000)"


@pytest.mark.parametrize(("pair_bytes", "verdict"), [(39_999, "hit"), (40_000, "MISS")])
def test_idle_pairs_are_judged_by_their_bytes(pair_bytes: float, verdict: str) -> None:
    lines = idle_table([Idle(WEIR, 5_000, pair_bytes, 0.0, 1_000.0)])
    assert last_cell(lines, "Weir, 5,000") == f"{verdict} (under 40,000)"


def test_the_spread_is_that_of_the_process_farthest_from_the_mean() -> None:
    assert spread_of([100]) == 0
    assert spread_of([90, 110]) == pytest.approx(0.1)
    assert spread_of([100, 100, 130, 70]) == pytest.approx(0.3)


def of_processes(costs: dict[str, float], spread: float = 0.0) -> list[str]:
    """The table of one load, in one round; without a cost, 1 processor second."""
    turns = [replace(turn(way, cpu_s=costs.get(way, 1.0)), spread=spread) for way in PROCESS_WAYS]
    return processes_table({"x": turns})


@pytest.mark.parametrize(("cpu_s", "verdict"), [(1.09, "hit"), (1.1, "hit"), (1.11, "MISS")])
@pytest.mark.parametrize(("way", "count"), [(WEIR_2, 2), (WEIR_4, 4)])
def test_several_processes_are_judged_by_the_cost_of_one(
    way: str, count: int, cpu_s: float, verdict: str
) -> None:
    title = f"processor time of {count} processes"
    assert last_cell(of_processes({way: cpu_s}), title) == f"{verdict} (at most 1.1)"


@pytest.mark.parametrize(("spread", "verdict"), [(0.19, "hit"), (0.2, "hit"), (0.201, "MISS")])
def test_the_spread_is_judged_in_each_round(spread: float, verdict: str) -> None:
    lines = processes_table(
        {"x": [replace(turn(WEIR_4, 1), spread=0.0), replace(turn(WEIR_4, 2), spread=spread)]}
    )
    assert last_cell(lines, "farthest of 4") == f"{verdict} (at most 20% in each round)"


@pytest.mark.parametrize(("cpu_s", "verdict"), [(2.9, "hit"), (3.0, "hit"), (3.1, "MISS")])
def test_two_processes_are_judged_by_what_two_threads_cost_haproxy(cpu_s: float, verdict: str) -> None:
    """One process costs twice what one thread does, two threads cost 1.5."""
    lines = of_processes({HAPROXY: 1.0, WEIR: 2.0, HAPROXY_2: 1.5, WEIR_2: cpu_s})
    assert last_cell(lines, "Weir / HAProxy with two processes and threads, to that with one: proc") == (
        f"{verdict} (at most 1)"
    )


def test_a_round_without_one_of_the_ways_does_not_count() -> None:
    turns = [turn(way) for way in PROCESS_WAYS] + [turn(WEIR_2, 2, cpu_s=9.0)]
    assert ratio_to_threads(turns, lambda each: each.cpu_us) == (1, 1, 1)
    assert ratio_to_threads(turns[1:], lambda each: each.cpu_us) is None


def test_a_run_without_the_gateway_has_no_verdicts() -> None:
    turns = {"fetch_1m": [turn(DIRECT), turn(HAPROXY)]}
    ways = (DIRECT, HAPROXY)
    tables = (
        throughput_table(turns, ways),
        processor_table(turns, ways),
        latency_table(turns["fetch_1m"], ways),
    )
    assert not any("hit" in line or "MISS" in line for table in tables for line in table)
