"""Medians, ratios and verdicts follow from the cells."""

from pathlib import Path

import pytest

from benchmarks.cells import START, Cell, Cells
from benchmarks.report import render, resource_table, throughput_table

LOAD = "metadata"  # its goal is Kafka's own result


def _cells(folder: Path, weir: list[float], kafka: list[float]) -> Cells:
    settings = {"peers": ["weir", "kafka"], "loads": [LOAD], "seconds": 1.0, "rounds": 3, "commit": "c0ffee"}
    cells = Cells.resume_or_begin(folder / "run", settings, fresh=False)
    for peer, figures in {"weir": weir, "kafka": kafka}.items():
        for round_number, figure in enumerate(figures, 1):
            result = {"requests_per_second": figure, "peak": 100e6, "anonymous": 50e6}
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


def test_a_load_that_nobody_stood_is_a_dash_and_has_no_verdict(tmp_path: Path) -> None:
    *_, row = throughput_table(_cells(tmp_path, [], [100.0]))
    assert _fields(row)[1:] == ["-", "100", "", ""]


@pytest.mark.parametrize(("seconds", "verdict"), [(0.999, "hit"), (1.0, "MISS"), (1.001, "MISS")])
def test_start_up_is_to_be_under_a_second(tmp_path: Path, seconds: float, verdict: str) -> None:
    cells = _cells(tmp_path, [1.0], [1.0])
    cells.add(Cell(1, "weir", START, {"first_answer_s": seconds, "resident": 79e6, "anonymous": 1.0}))
    start = resource_table(cells)[2]
    assert _fields(start)[-1] == f"{verdict} (under 1.00 s)"


def test_a_failure_is_told_by_the_last_line_that_says_something(tmp_path: Path) -> None:
    cells = _cells(tmp_path, [1.0], [1.0])
    cells.add(Cell(1, "kafka", LOAD, {"failed": "Traceback\n    | OSError: no disk\n    +-----"}))
    assert "round 1, kafka, metadata: `OSError: no disk`" in render(cells)
