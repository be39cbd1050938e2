"""The health check of the pipeline's image, as the Dockerfile has it: how old the sign of life may be."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline import alive
from tests.conventions.sources import ROOT

OLDEST_S = 900


def checked(file: Path) -> int:
    stage = (ROOT / "Dockerfile").read_text(encoding="utf-8").partition(" AS pipeline\n")[2]
    found = re.search(r"HEALTHCHECK [^\n]*\n +CMD (\[.*\])\n", stage.partition("\nFROM ")[0])
    assert found is not None
    program, *arguments = json.loads(found[1])
    assert program == "python3"
    environment = {**os.environ, alive.VARIABLE: str(file)}
    return subprocess.run([sys.executable, *arguments], env=environment, check=False).returncode


@pytest.mark.parametrize(("age_s", "status"), [(0, 0), (OLDEST_S - 60, 0), (OLDEST_S + 1, 1)])
def test_a_sign_of_life_may_be_15_minutes_old(tmp_path: Path, age_s: float, status: int) -> None:
    file = tmp_path / "alive"
    file.touch()
    os.utime(file, times=2 * (time.time() - age_s,))
    assert checked(file) == status


def test_without_a_stream_there_is_nothing_to_check(tmp_path: Path) -> None:
    assert checked(tmp_path / "nowhere") == 0
