"""examples/insights.ipynb runs on a small warehouse, and its answers are those of the tables."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conventions.sources import ROOT

NOTEBOOK: Final = ROOT / "examples" / "insights.ipynb"
TIMEOUT_S: Final = 180
"""For one cell; the one with Spark starts a JVM."""


def cells(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def test_the_notebook_is_stored_without_outputs():
    assert [cell["outputs"] or cell["execution_count"] for cell in cells("code")] == [None] * len(
        cells("code")
    )


def test_the_notebook_answers_its_questions(taken, tmp_path, monkeypatch):
    nbclient = pytest.importorskip(
        "nbclient", reason="nbclient is not installed: make test-pipeline installs it"
    )
    nbformat = pytest.importorskip(
        "nbformat", reason="nbformat is not installed: make test-pipeline installs it"
    )
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    environment = os.environ | {
        "WEIR_WAREHOUSE": str(taken.root),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    }
    client = nbclient.NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment)
    answers = [_answer(cell) for cell in notebook.cells if cell.cell_type == "code"]
    tables, cost, compliance, growth = answers
    assert sorted(Path(log).name for log in taken.tables if log.startswith("gold/")) == json.loads(
        tables.replace("'", '"')
    )
    assert "'alice'" in cost and "alice" in compliance
    assert growth.count("Row(tenant='alice'") == 2 and "key='producer_byte_rate'" in growth


def _answer(cell: Any) -> str:
    """Return the last value of a cell, as text."""
    values = [each["data"]["text/plain"] for each in cell.outputs if each["output_type"] == "execute_result"]
    return str(values[-1])
