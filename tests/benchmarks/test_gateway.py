"""The report of the gateway's benchmark: ratios are of turns of one round, goals are judged right."""

from dataclasses import replace

import pytest

from benchmarks.gateway import (
    DIRECT,
    HAPROXY,
    WEIR,
    Idle,
    Turn,
    idle_table,
    latency_table,
    processor_table,
    ratio,
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
        ("produce_16k", "0.85", 84.9, "MISS"),
        ("produce_16k", "0.85", 85, "hit"),
        ("metadata", "0.85", 85.1, "hit"),
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


def test_a_run_without_the_gateway_has_no_verdicts() -> None:
    turns = {"fetch_1m": [turn(DIRECT), turn(HAPROXY)]}
    ways = (DIRECT, HAPROXY)
    tables = (
        throughput_table(turns, ways),
        processor_table(turns, ways),
        latency_table(turns["fetch_1m"], ways),
    )
    assert not any("hit" in line or "MISS" in line for table in tables for line in table)
