"""An interrupted benchmark continues, and repeats failed cells."""

from pathlib import Path
from typing import Any

from benchmarks.cells import START, Cell, Cells

SETTINGS: dict[str, Any] = {
    "peers": ["weir"],
    "loads": ["metadata"],
    "seconds": 1.0,
    "rounds": 2,
    "commit": "c0ffee",
}


def _begin(folder: Path, *, fresh: bool = False) -> Cells:
    return Cells.resume_or_begin(folder / "run", SETTINGS, fresh=fresh)


def test_measured_cells_are_known_after_a_restart(tmp_path: Path) -> None:
    _begin(tmp_path).add(Cell(1, "weir", "metadata", {"requests_per_second": 7.0}))
    again = _begin(tmp_path)
    assert again.has(1, "weir", "metadata")
    assert not again.has(2, "weir", "metadata")
    assert again.good("weir", "metadata") == [{"requests_per_second": 7.0}]


def test_a_failed_cell_is_not_had_and_its_second_try_replaces_it(tmp_path: Path) -> None:
    cells = _begin(tmp_path)
    cells.add(Cell(1, "weir", START, {"failed": "exit status 1"}))
    assert not cells.has(1, "weir", START)
    assert [cell.load for cell in cells.failures()] == [START]
    cells.add(Cell(1, "weir", START, {"first_answer_s": 0.5}))
    again = _begin(tmp_path)
    assert again.has(1, "weir", START)
    assert again.failures() == []


def test_a_fresh_run_puts_the_earlier_one_aside(tmp_path: Path) -> None:
    _begin(tmp_path).add(Cell(1, "weir", "metadata", {"requests_per_second": 7.0}))
    assert _begin(tmp_path, fresh=True).by_key == {}
    assert len(list(tmp_path.iterdir())) == 2
