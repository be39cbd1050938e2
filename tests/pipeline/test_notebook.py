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
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tables, cost, hours, compliance, growth = (_answer(cell) for cell in code)
    assert sorted(Path(log).name for log in taken.tables if log.startswith("gold/")) == json.loads(
        tables.replace("'", '"')
    )
    assert "'alice'" in cost and "alice" in compliance
    assert "SVG" in hours
    assert _answer(code[2], "image/svg+xml").count("<title>12:00, ") == 1
    assert "<table" in _answer(code[3], "text/html")
    assert growth.count("Row(tenant='alice'") == 2 and "key='producer_byte_rate'" in growth


def test_who_has_no_login_is_a_tenant_by_the_client_id():
    """In the query of the notebook, on three rows of usage."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: make test-pipeline installs it")
    usage = duckdb.sql(  # noqa: F841 - the query reads it by its name
        "SELECT * FROM (VALUES ('c', 'ANONYMOUS', 'a', 3, 0), ('c', 'ANONYMOUS', 'b', 2, 0), "
        "('c', 'alice', 'a', 1, 0)) AS t(cluster, principal, client_id, produce_bytes, fetch_bytes)"
    )
    source = next("".join(cell["source"]) for cell in cells("code") if "PRICES" in "".join(cell["source"]))
    query = source.partition('"""')[2].partition('"""')[0]
    rows = duckdb.execute(query, {"produced": 1.0, "fetched": 0.0}).fetchall()
    assert [row[1:3] for row in rows] == [("a", 3), ("b", 2), ("alice", 1)]


def _answer(cell: Any, kind: str = "text/plain") -> str:
    """Return the last value of a cell, as text."""
    values = [each["data"][kind] for each in cell.outputs if each["output_type"] == "execute_result"]
    return str(values[-1])
