"""Without its packages, `weir pipeline` names the one that is missing and the extra that has it."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.command import pipeline


def test_a_list_of_tables_without_pyarrow_blames_the_package_and_not_the_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """deltalake, which the extra `insights` has, opens the tables without it."""
    (tmp_path / "bronze" / "events" / "_delta_log").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = CliRunner().invoke(pipeline, ["tables", "--warehouse", str(tmp_path)])
    assert ended.exit_code == 1
    assert ended.output.startswith(
        "Error: pyarrow is not installed; the pipeline needs Weir's extra `pipeline`."
    )
    assert ended.output.count("\n") == 1
