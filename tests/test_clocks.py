"""A test whose clock only a fixture asks for is refused: it would wait for real seconds."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SUITE: Final = """
import pytest
import trio

@pytest.fixture
def world(autojump_clock): return "world"

async def test_a_minute(world{more}):
    await trio.sleep(60)
    assert trio.current_time() == 60
"""


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        (", autojump_clock", 0, "1 passed"),
        ("", 4, "test_a_minute: a fixture asks for autojump_clock, and the test does not"),
    ],
    ids=["asked for", "hidden"],
)
def test_a_clock_is_asked_for_by_the_test_itself(tmp_path: Path, more: str, status: int, said: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\ntrio_mode = true\n")
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "tests" / "test_some.py").write_text(SUITE.replace("{more}", more))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        text=True,
        capture_output=True,
    )
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (status, True), ran.stdout + ran.stderr
