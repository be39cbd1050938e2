"""The file by which a supervisor sees that the stream goes on."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline import alive
from pipeline.command import pipeline


def test_the_file_that_the_variable_names_gets_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "alive"
    alive.touch()
    assert not file.exists()
    monkeypatch.setenv(alive.VARIABLE, str(file))
    alive.touch()
    os.utime(file, (1, 1))
    alive.touch()
    assert file.stat().st_mtime > 1


def test_a_file_that_cannot_be_written_ends_the_run_with_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(alive.VARIABLE, str(tmp_path / "nowhere" / "alive"))
    ended = CliRunner().invoke(pipeline, ["run"])
    assert ended.exit_code == 1
    assert ended.output.startswith("Error: WEIR_PIPELINE_ALIVE: ") and ended.output.count("\n") == 1
