"""Medians, ratios and verdicts follow from the cells."""

from pathlib import Path

import pytest

from benchmarks.cells import START, Cell, Cells
from benchmarks.report import half_load_table, processor_table, render, resource_table, throughput_table

LOAD = "produce_100b"  # its goal is the best peer's own result


def _cells(folder: Path, weir: list[float], kafka: list[float]) -> Cells:
    return _measured(folder, {"weir": weir, "kafka": kafka})


def _measured(folder: Path, figures_of: dict[str, list[float]]) -> Cells:
    settings = {"peers": list(figures_of), "loads": [LOAD], "seconds": 1.0, "rounds": 3, "commit": "c0ffee"}
    cells = Cells.resume_or_begin(folder / "run", settings, fresh=False)
    for peer, figures in figures_of.items():
        for round_number, figure in enumerate(figures, 1):
            result = {
                "requests_per_second": figure,
                "broker_cpu_us": figure,
                "peak": 100e6,
                "anonymous": 50e6,
            }
            cells.add(Cell(round_number, peer, LOAD, result))
    return cells


def _fields(line: str) -> list[str]:
    return [field.strip() for field in line.strip("|").split("|")]


def test_a_row_has_medians_with_their_spread_and_the_ratio_of_medians(tmp_path: Path) -> None:
    *_, row = throughput_table(_cells(tmp_path, [300.0, 100.0, 150.0], [100.0, 50.0, 75.0]))
    assert _fields(row)[1:] == ["150 (100-300)", "75 (50-100)", "2.00", "hit (goal 1)"]


@pytest.mark.parametrize(("ours", "verdict"), [(99.0, "MISS"), (100.0, "hit"), (101.0, "hit")])
def test_reaching_the_goal_exactly_is_a_hit(tmp_path: Path, ours: float, verdict: str) -> None:
    *_, row = throughput_table(_cells(tmp_path, [ours], [100.0]))
    assert _fields(row)[-1] == f"{verdict} (goal 1)"


def test_a_load_that_every_peer_failed_is_a_dash_and_has_no_verdict(tmp_path: Path) -> None:
    *_, row = throughput_table(_cells(tmp_path, [], [100.0]))
    assert _fields(row)[1:] == ["-", "100", "", ""]


def test_the_best_rival_is_the_goal_and_tansu_is_none(tmp_path: Path) -> None:
    figures = {"weir": [150.0], "kafka": [100.0], "kfake": [300.0], "tansu": [900.0]}
    *_, row = throughput_table(_measured(tmp_path, figures))
    assert _fields(row)[-2:] == ["0.50", "MISS (goal 1)"]


@pytest.mark.parametrize(("ours", "verdict"), [(99.0, "hit"), (100.0, "hit"), (101.0, "MISS")])
def test_processor_time_is_to_be_at_most_that_of_the_cheapest_rival(
    tmp_path: Path, ours: float, verdict: str
) -> None:
    *_, row = processor_table(
        _measured(tmp_path, {"weir": [ours], "kafka": [300.0], "kfake": [100.0], "tansu": [1.0]})
    )
    assert _fields(row)[-2:] == [f"{ours / 100:.2f}", f"{verdict} (goal 1)"]


@pytest.mark.parametrize(("seconds", "verdict"), [(0.599, "hit"), (0.6, "MISS"), (0.601, "MISS")])
def test_start_up_is_to_be_under_six_tenths_of_a_second(tmp_path: Path, seconds: float, verdict: str) -> None:
    cells = _cells(tmp_path, [1.0], [1.0])
    cells.add(Cell(1, "weir", START, {"first_answer_s": seconds, "resident": 64e6, "anonymous": 1.0}))
    start = resource_table(cells)[2]
    assert _fields(start)[-1] == f"{verdict} (under 0.60 s)"


@pytest.mark.parametrize(("ours", "verdict"), [(999.0, "hit"), (1_000.0, "hit"), (1_001.0, "MISS")])
def test_the_p99_at_half_load_is_to_be_at_most_that_of_kafka(
    tmp_path: Path, ours: float, verdict: str
) -> None:
    load = f"{LOAD}_half"
    settings = {"peers": ["weir", "kafka", "kfake"], "loads": [LOAD, load], "seconds": 1.0, "rounds": 1}
    cells = Cells.resume_or_begin(tmp_path / "run", settings, fresh=False)
    for peer, p99_us in (("weir", ours), ("kafka", 1_000.0), ("kfake", 1.0)):
        cells.add(Cell(1, peer, load, {"p99_us": p99_us, "requests_per_second": 12_345.0}))
    *_, row = half_load_table(cells)
    assert _fields(row)[2] == "1.00 at 12,345/s"
    assert _fields(row)[-2:] == [f"{ours / 1_000:.2f}", verdict]
    assert all(len(table(cells)) == 3 for table in (throughput_table, processor_table))


def test_without_loads_at_half_of_the_rate_there_is_no_table_of_them(tmp_path: Path) -> None:
    assert half_load_table(_cells(tmp_path, [1.0], [1.0])) == []


def test_a_table_without_rows_is_left_out(tmp_path: Path) -> None:
    assert "p99 in ms, at half" not in render(_cells(tmp_path, [1.0], [1.0]))
    cells = Cells.resume_or_begin(
        tmp_path / "half",
        {"peers": ["weir"], "loads": [f"{LOAD}_half"], "seconds": 1.0, "rounds": 1, "commit": "c0ffee"},
        fresh=False,
    )
    assert "p99 in ms, at half" in render(cells) and "Weir / best" not in render(cells)


def test_a_failure_is_described_by_the_last_line_that_says_something(tmp_path: Path) -> None:
    cells = _cells(tmp_path, [1.0], [1.0])
    cells.add(Cell(1, "kafka", LOAD, {"failed": "Traceback\n    | OSError: no disk\n    +-----"}))
    assert "round 1, kafka, produce_100b: `OSError: no disk`" in render(cells)
